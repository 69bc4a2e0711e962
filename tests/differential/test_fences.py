"""What the scheduler writes behind a launch comes behind what that forward reads, and waits for no more than that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.driven.fixtures import without_and_with_each

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

Both = tuple["DrivenTree", "DrivenTree"]
LOOPS = pytest.mark.parametrize("kind", ["overlap", "prefill", "decode"])


before_and_after = without_and_with_each("26380", ["0.5.11", "0.5.12.post1", "0.5.13"], alone=True)
# 0.5.14 has events of its own, and waits for them when an iteration begins.
loops = without_and_with_each(
    "26380", ["0.5.11", "0.5.12.post1", "0.5.13", "0.5.14", "0.5.15.post1"], alone=True
)


def unordered(done: list[list[Any]]) -> list[list[Any]]:
    """What the scheduler did while nothing had it wait for the forward that was launched last."""
    found, running = [], False
    for act in done:
        if act[0] == "launch":
            running = True
        elif act[0].startswith("wait"):
            running = False
        elif running:
            found.append(act)
    return found


@LOOPS
def test_results_and_the_next_batch_come_behind_the_reads_of_the_forward_in_flight(
    loops: Both, kind: str
) -> None:
    before, after = loops
    for published in ([False] * 3, [True] * 3, [True, False, True]):
        assert ["result", 0] in unordered(before.ask("fences.loop", kind, published))
        assert unordered(after.ask("fences.loop", kind, published)) == []


@LOOPS
def test_a_forward_that_records_its_last_read_is_not_awaited_to_its_end(loops: Both, kind: str) -> None:
    _, after = loops
    done = after.ask("fences.loop", kind, [True, False, True])
    launched = [act for act in done if act[0] == "launch" or act[0].startswith("wait")]
    assert launched == [
        *(["launch", 0], ["wait for reads", 0]),
        *(["launch", 1], ["wait for all", "forward"]),
        *(["launch", 2], ["wait for reads", 2]),
    ]


@LOOPS
def test_nothing_waits_on_another_device_than_cudas(loops: Both, kind: str) -> None:
    before, after = loops
    was, result = (tree.ask("fences.loop", kind, [False] * 3, cuda=False) for tree in (before, after))
    assert result == was
    assert not any(act[0].startswith("wait") for act in result)


def test_a_decode_has_read_when_its_metadata_is_there(before_and_after: Both) -> None:
    before, after = before_and_after
    assert before.ask("fences.decode", "TritonAttnBackend") == ["metadata", "graph"]
    assert after.ask("fences.decode", "TritonAttnBackend") == ["metadata", "reads are done", "graph"]


@pytest.mark.parametrize(
    ("backend", "more"),
    [
        ("TritonAttnBackend", {"speculates": True}),
        ("TritonAttnBackend", {"windows": True}),
        ("ForksAttnBackend", {}),
    ],
    ids=["a verify, which a draft-extend follows", "a window's pool", "a backend that is not known"],
)
def test_a_graph_after_which_more_is_read_records_nothing(
    before_and_after: Both, backend: str, more: dict[str, bool]
) -> None:
    _, after = before_and_after
    assert after.ask("fences.decode", backend, **more) == ["metadata", "graph"]


def test_a_draft_extend_has_read_when_its_metadata_is_there(before_and_after: Both) -> None:
    before, after = before_and_after
    assert before.ask("fences.draft_extend") == ["metadata", "graph"]
    assert after.ask("fences.draft_extend") == ["metadata", "reads are done", "graph"]
