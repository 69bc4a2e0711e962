"""A tree mask that the target never reads covers the draft tokens alone; everyone else's stays as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.driven.graph_sessions import CONTEXT
from support.driven.trees import DEFAULT, DrivenTree, with_patches

if TYPE_CHECKING:
    from support.releases import Releases

TOKENS = 4
SERVER = {"context": CONTEXT, "page_size": 32, "draft_tokens": TOKENS, "topk": 1, "steps": 3}
LENS = [[40, 65, 17], [CONTEXT], [1, 1, 190, 8, 77]]
BATCH = {"rows": [3, 9, 5], "lens": [40, 65, 17], "accepted": [4, 4, 4]}
UNREAD = ("mha", "mla", "triton/mha", "triton/mla")
READ = ("triton", "mha/triton")
# A server of one draft branch; whatever else their metadata depends on.
BLIND = {
    "mha": 32,
    "mla": 32,
    "flashmla": 64,
    "flash plain": 16,
    "flash latent": 16,
    "flash window": 16,
    "flash two pools": 16,
    "flash local": 16,
    "flash cross": 16,
    "flash version 4": 16,
}


@pytest.fixture(scope="module")
def later(releases: Releases) -> DrivenTree:
    """A release of other graph runners, with the patches that it lacks."""
    return with_patches(releases, "later", DEFAULT, "0.5.14")


@pytest.fixture(params=["patched", "hardened", "later"])
def tree(request: pytest.FixtureRequest) -> DrivenTree:
    named: DrivenTree = request.getfixturevalue(request.param)
    return named


def masks(tree: DrivenTree, kind: str, **more: Any) -> list[dict[str, Any]]:
    return [tree.ask("tree_mask.drafted", "eagle", kind, SERVER, lens, total=None, **more) for lens in LENS]


def as_before(tree: DrivenTree, kind: str, **more: Any) -> list[dict[str, Any]]:
    return masks(tree, kind, disable="32886", **more)


@pytest.mark.parametrize("graph", [None, 5])
@pytest.mark.parametrize("kind", UNREAD)
def test_a_mask_that_nobody_reads_is_over_the_draft_tokens(
    tree: DrivenTree, kind: str, graph: int | None
) -> None:
    for result, lens in zip(masks(tree, kind, graph=graph), LENS, strict=True):
        size = len(lens) * TOKENS * TOKENS
        assert result["mask"] == ("torch.bool", size, size)
        assert result["kernel_fills_it"]
        assert not result["preallocated"]
        assert result["host_reads"] == 0


@pytest.mark.parametrize("kind", UNREAD)
def test_switched_off_it_is_the_full_one_again(tree: DrivenTree, kind: str) -> None:
    for result, lens in zip(as_before(tree, kind, graph=5), LENS, strict=True):
        assert result["mask"][1] >= len(lens) * CONTEXT * TOKENS


@pytest.mark.parametrize("kind", READ)
def test_a_mask_that_is_read_stays(tree: DrivenTree, kind: str) -> None:
    result = masks(tree, kind, graph=5)
    assert result == as_before(tree, kind, graph=5)
    assert all(
        each["mask"][1] >= len(lens) * CONTEXT * TOKENS for each, lens in zip(result, LENS, strict=True)
    )


@pytest.mark.parametrize("mode", ["QLEN_ONLY", "QLEN_ONLY_BITPACKING"])
def test_a_mode_that_the_worker_chose_stays(tree: DrivenTree, mode: str) -> None:
    assert masks(tree, "mha", mode=mode) == as_before(tree, "mha", mode=mode)


@pytest.mark.parametrize("kind", BLIND)
def test_a_backend_whose_mask_is_small_looks_at_none(tree: DrivenTree, kind: str) -> None:
    server = SERVER | {"page_size": BLIND[kind]}
    looks = tree.ask("verify_mask.looks", kind, server, BATCH)
    assert looks == {"eager": False, "capture": False, "replay": False}
    assert tree.ask("verify_mask.chosen", kind, server) == "QLEN_ONLY"


@pytest.mark.parametrize(("kind", "topk"), [("triton", 1), ("triton", 4), ("flash latent, top-k 4", 4)])
def test_a_backend_that_looks_at_it_has_the_full_one(tree: DrivenTree, kind: str, topk: int) -> None:
    server = SERVER | {"page_size": 1, "topk": topk}
    looks = tree.ask("verify_mask.looks", kind, server, BATCH)
    assert looks["eager"]
    assert looks["replay"]
    assert tree.ask("verify_mask.chosen", kind, server) == "FULL_MASK"


@pytest.mark.parametrize(("kind", "topk"), [("mha", 4), ("flash fork", 1)])
def test_branches_and_a_forks_subclass_keep_the_full_one(tree: DrivenTree, kind: str, topk: int) -> None:
    assert tree.ask("verify_mask.chosen", kind, SERVER | {"page_size": 16, "topk": topk}) == "FULL_MASK"
