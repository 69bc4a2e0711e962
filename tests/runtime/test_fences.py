from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from patchkit.runtime.fences import fence_shared_reads, publish_shared_reads

if TYPE_CHECKING:
    from collections.abc import Callable


class TritonAttnBackend:
    pass


class Subclass(TritonAttnBackend):
    pass


def published(monkeypatch: pytest.MonkeyPatch, **named: Any) -> Callable[[], str]:
    """Let a graph's runner publish; return what asks for whom the scheduler then waits."""
    event = SimpleNamespace(record=lambda: None)
    monkeypatch.setattr(torch, "get_device_module", lambda _: SimpleNamespace(Event=lambda: event))
    monkeypatch.setattr(torch.version, "cuda", "12.0")
    draft_extends, backend = named.pop("draft_extends", False), named.pop("backend", TritonAttnBackend)
    model = {
        "attn_backend": backend(),
        "spec_algorithm": SimpleNamespace(is_none=lambda: not draft_extends),
        "token_to_kv_pool": None,
        "use_ngram_embedding": named.get("embeds_ngrams", False),
    }
    mode = SimpleNamespace(
        is_draft_extend_v2=lambda: draft_extends, is_decode=lambda: named.get("decodes", not draft_extends)
    )
    runner: Any = SimpleNamespace(model_runner=SimpleNamespace(**model))
    publish_shared_reads(runner, SimpleNamespace(forward_mode=mode, seq_lens=torch.ones(1)))

    def waits() -> str:
        calls: list[str] = []
        stream = SimpleNamespace(
            wait_event=lambda _: calls.append("reads"), wait_stream=lambda _: calls.append("forward")
        )
        fence_shared_reads(SimpleNamespace(schedule_stream=stream, forward_stream=None))
        (one,) = calls
        return one

    return waits


@pytest.mark.parametrize("draft_extends", [True, False])
def test_an_event_is_waited_for_once(monkeypatch: pytest.MonkeyPatch, draft_extends: bool) -> None:
    waits = published(monkeypatch, draft_extends=draft_extends)
    assert [waits(), waits()] == ["reads", "forward"]


def test_a_forward_that_writes_the_sampled_tokens_to_their_requests_rows_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The scheduler writes a prompt to the same row once the request has finished.
    assert published(monkeypatch, embeds_ngrams=True)() == "forward"


@pytest.mark.parametrize("named", [{"decodes": False}, {"backend": Subclass}, {"backend": object}])
def test_a_later_phase_takes_back_what_an_earlier_one_published(
    monkeypatch: pytest.MonkeyPatch, named: dict[str, Any]
) -> None:
    published(monkeypatch)
    assert published(monkeypatch, **named)() == "forward"


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({"_war_barrier_enabled": True}, ["forward"]),
        ({"_war_barrier_enabled": False}, []),
        ({"_apply_war_barrier": lambda: None}, []),
        ({}, []),
    ],
    ids=["on", "off", "its own", "unsaid"],
)
@pytest.mark.parametrize("cuda", ["12.0", None])
def test_the_wait_devices_that_a_tree_names_are_used(
    monkeypatch: pytest.MonkeyPatch, named: dict[str, Any], expected: list[str], cuda: str | None
) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    calls: list[str] = []
    stream = SimpleNamespace(wait_stream=lambda _: calls.append("forward"))
    scheduler: Any = SimpleNamespace(schedule_stream=stream, forward_stream=None, **named)
    fence_shared_reads(scheduler)
    assert calls == (expected if named or cuda is None else ["forward"])
