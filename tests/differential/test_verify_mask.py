"""A tree mask that the target never reads covers the draft tokens alone; everyone else's stays as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.driven.graph_sessions import CONTEXT

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

TOKENS = 4
SERVER = {"context": CONTEXT, "page_size": 32, "draft_tokens": TOKENS, "topk": 1, "steps": 3}
LENS = [[40, 65, 17], [CONTEXT], [1, 1, 190, 8, 77]]
UNREAD = ("mha", "mla", "triton/mha", "triton/mla")
READ = ("triton", "mha/triton")


def masks(tree: DrivenTree, kind: str, **more: Any) -> list[dict[str, Any]]:
    return [tree.ask("tree_mask.drafted", "eagle", kind, SERVER, lens, total=None, **more) for lens in LENS]


@pytest.mark.parametrize("graph", [None, 5])
@pytest.mark.parametrize("kind", UNREAD)
def test_a_mask_that_nobody_reads_is_over_the_draft_tokens(
    opted_out: DrivenTree, kind: str, graph: int | None
) -> None:
    for told, lens in zip(masks(opted_out, kind, graph=graph), LENS, strict=True):
        size = len(lens) * TOKENS * TOKENS
        assert told["mask"] == ("torch.bool", size, size)
        assert told["kernel_fills_it"]
        assert not told["preallocated"]
        assert told["host_reads"] == 0


@pytest.mark.parametrize("kind", UNREAD)
def test_switched_off_it_is_the_full_one_again(patched: DrivenTree, opted_out: DrivenTree, kind: str) -> None:
    assert masks(opted_out, kind, graph=5, disable="32886") == masks(patched, kind, graph=5)


@pytest.mark.parametrize("kind", READ)
def test_a_mask_that_is_read_stays(patched: DrivenTree, opted_out: DrivenTree, kind: str) -> None:
    assert masks(opted_out, kind, graph=5) == masks(patched, kind, graph=5)


@pytest.mark.parametrize("mode", ["QLEN_ONLY", "QLEN_ONLY_BITPACKING"])
def test_a_mode_that_the_worker_chose_stays(patched: DrivenTree, opted_out: DrivenTree, mode: str) -> None:
    assert masks(opted_out, "mha", mode=mode) == masks(patched, "mha", mode=mode)
