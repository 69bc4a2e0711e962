"""Which memory the graphs of a draft-extend share: with whom, and when they have their own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from patchkit.runtime.api_1 import draft_extend_logits, share_draft_extend_tables

ROWS, VOCABULARY, REQUESTS, PAGES = 6, 10, 3, 5
DISABLED = {"PATCHKIT_DISABLE": "pk-fa3-draft-extend-graph"}


class EAGLEDraftExtendCudaGraphRunner:
    """A runner by its name in the tree."""

    def __init__(self, target: Any, *, is_v2: bool = True) -> None:
        self.forward_mode = SimpleNamespace(is_draft_extend_v2=lambda: is_v2)
        self.eagle_worker = SimpleNamespace(target_worker=SimpleNamespace(model_runner=target))


class OtherRunner(EAGLEDraftExtendCudaGraphRunner):
    """A subclass, such as another device's."""


def target(rows: int, vocabulary: int, name: str = "graph_runner") -> tuple[Any, torch.Tensor]:
    logits = torch.full((rows, vocabulary), 7.0)
    runner = SimpleNamespace(buffers=SimpleNamespace(next_token_logits_buffer=logits))
    return SimpleNamespace(**{name: runner}), logits


@pytest.mark.parametrize("name", ["graph_runner", "decode_cuda_graph_runner"])
@pytest.mark.parametrize("rows", [ROWS, ROWS + 2])
def test_logits_are_the_targets_where_they_have_room(name: str, rows: int) -> None:
    model, logits = target(rows, VOCABULARY, name)
    runner: Any = EAGLEDraftExtendCudaGraphRunner(model)
    shared = draft_extend_logits(runner, ROWS, VOCABULARY)
    assert (shared.shape, shared.data_ptr()) == ((ROWS, VOCABULARY), logits.data_ptr())


@pytest.mark.parametrize(
    ("runner", "environment"),
    [
        (EAGLEDraftExtendCudaGraphRunner(target(ROWS - 1, VOCABULARY)[0]), {}),
        (EAGLEDraftExtendCudaGraphRunner(target(ROWS, VOCABULARY + 1)[0]), {}),
        (EAGLEDraftExtendCudaGraphRunner(SimpleNamespace(graph_runner=None)), {}),
        (EAGLEDraftExtendCudaGraphRunner(SimpleNamespace(decode_cuda_graph_runner=SimpleNamespace())), {}),
        (EAGLEDraftExtendCudaGraphRunner(target(ROWS, VOCABULARY)[0], is_v2=False), {}),
        (OtherRunner(target(ROWS, VOCABULARY)[0]), {}),
        (EAGLEDraftExtendCudaGraphRunner(target(ROWS, VOCABULARY)[0]), DISABLED),
    ],
    ids=["few rows", "vocabulary", "no graphs", "eager", "v1", "subclass", "disabled"],
)
def test_else_logits_are_new(
    monkeypatch: pytest.MonkeyPatch, runner: Any, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    made = draft_extend_logits(runner, ROWS, VOCABULARY)
    assert torch.equal(made, torch.zeros(ROWS, VOCABULARY))
    assert made.dtype == torch.float32


class FlashAttentionBackend:
    """A backend by its name in the tree, with the state of its graphs."""

    fa_impl_ver = 3

    def __init__(self, pages: int = PAGES, topk: int = 1) -> None:
        def table() -> torch.Tensor:
            return torch.zeros(REQUESTS, pages, dtype=torch.int32)

        self.topk = topk
        self.decode_cuda_graph_metadata: dict[Any, Any] = {
            "page_table": table(),
            "page_table_draft_decode": table(),
            "cache_seqlens": torch.zeros(REQUESTS, dtype=torch.int32),
        }
        self.target_verify_metadata: dict[Any, Any] = {"page_table": table()}
        captured = SimpleNamespace(page_table=table())
        self.draft_extend_metadata: dict[Any, Any] = {"page_table": table(), REQUESTS: captured}

    def tables(self) -> list[int]:
        modes = (self.decode_cuda_graph_metadata, self.target_verify_metadata, self.draft_extend_metadata)
        return [
            value.data_ptr()
            for mode in modes
            for name, value in mode.items()
            if str(name).startswith("page_table")
        ]


def draft_of(*steps: Any) -> Any:
    return SimpleNamespace(draft_attn_backend=SimpleNamespace(attn_backends=list(steps)))


def test_tables_are_the_unused_one_of_the_drafts_first_step() -> None:
    backend, step = FlashAttentionBackend(), FlashAttentionBackend()
    lens, captured = (
        backend.decode_cuda_graph_metadata["cache_seqlens"],
        backend.draft_extend_metadata[REQUESTS],
    )
    before = step.tables()
    share_draft_extend_tables(backend, draft_of(step))
    assert set(backend.tables()) == {step.draft_extend_metadata["page_table"].data_ptr()}
    assert step.tables() == before
    assert backend.decode_cuda_graph_metadata["cache_seqlens"] is lens
    assert backend.draft_extend_metadata[REQUESTS] is captured


class Fork(FlashAttentionBackend):
    """A fork's subclass, which may run anything in its graphs."""


@pytest.mark.parametrize(
    "runner",
    [
        SimpleNamespace(draft_attn_backend=None),
        SimpleNamespace(),
        draft_of(),
        draft_of(FlashAttentionBackend(PAGES + 1)),
        draft_of(SimpleNamespace()),
        draft_of(Fork()),
    ],
    ids=["one step", "none", "no steps", "other pages", "other backend", "fork"],
)
def test_without_such_a_step_one_table_of_its_own_is_left(runner: Any) -> None:
    backend = FlashAttentionBackend()
    own = backend.draft_extend_metadata["page_table"].data_ptr()
    share_draft_extend_tables(backend, runner)
    assert set(backend.tables()) == {own}


class OptedOut(FlashAttentionBackend):
    """The same where the patches plan several branches."""

    page_size = 2
    req_to_token = torch.zeros(REQUESTS, 2 * PAGES + 3)
    needs_cpu_seq_lens = property(lambda _: False)


OptedOut.__name__ = "FlashAttentionBackend"


def test_several_branches_have_one_table_as_wide_as_the_pools_rows() -> None:
    backend: Any = OptedOut(topk=4)
    share_draft_extend_tables(backend, draft_of(OptedOut(topk=4)), branches=True)
    assert len(set(backend.tables())) == 1
    assert backend.draft_extend_metadata["page_table"].shape == (REQUESTS, PAGES + 2)


@pytest.mark.parametrize("backend", [FlashAttentionBackend(topk=4), Fork()], ids=["branches", "fork"])
def test_other_backends_keep_their_tables(backend: Any) -> None:
    before = backend.tables()
    share_draft_extend_tables(backend, draft_of(FlashAttentionBackend()))
    assert backend.tables() == before


def test_switched_off_a_backend_keeps_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(*next(iter(DISABLED.items())))
    backend = FlashAttentionBackend()
    before = backend.tables()
    share_draft_extend_tables(backend, draft_of(FlashAttentionBackend()))
    assert backend.tables() == before
