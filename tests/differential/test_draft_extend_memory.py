"""The memory of FlashAttention-3's draft-extend graphs beside the graphs themselves is what the patch's risk says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.driven.trees import DrivenTree, with_patches
from support.sweeps import representative, swept

if TYPE_CHECKING:
    from support.releases import Releases

PATCH = "pk-fa3-draft-extend-graph"
RELEASES = (
    *("0.5.11", "0.5.12.post1", "0.5.13", "0.5.14", "0.5.15", "0.5.16", "0.5.17"),
    *("0.5.18", "0.5.19", "0.5.20", "0.5.21", "0.5.22"),
)
CONTEXT, REQUESTS, HIDDEN = 512, 8, 32
TARGET, OWN = 96, 64
"""The target's vocabulary, and a draft's own."""


@pytest.fixture(scope="module", params=swept(RELEASES, {"0.5.13", *representative(RELEASES)}.__contains__))
def tree(request: pytest.FixtureRequest, releases: Releases) -> DrivenTree:
    """The releases that do not capture this draft-extend themselves, with the patch alone."""
    return with_patches(releases, f"memory {request.param}", (PATCH,), request.param)


def allocated(tree: DrivenTree, page_size: int, steps: int, draft: int, disable: str = "") -> dict[str, Any]:
    server = {"context": CONTEXT, "page_size": page_size, "draft_tokens": steps + 1, "steps": steps}
    answer: dict[str, Any] = tree.ask(
        "draft_extend_memory.allocated", server, REQUESTS, HIDDEN, (TARGET, draft), disable
    )
    return answer


@pytest.mark.parametrize("page_size", [1, 64])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("draft", [TARGET, OWN])
def test_a_draft_extend_graph_takes_what_the_risk_says(
    tree: DrivenTree, page_size: int, steps: int, draft: int
) -> None:
    made, pages = allocated(tree, page_size, steps, draft), CONTEXT // page_size
    tokens = REQUESTS * (steps + 1)
    # One table of a draft of a single step; three lists of positions, and a few numbers for each request.
    tables = REQUESTS * pages * 4 if steps == 1 else 0
    few = 3 * pages * 8 + REQUESTS * 64
    assert tables <= made["tables"] <= tables + few
    # Logits over another vocabulary than the target's, which the oldest trees share if it is smaller; the states, and
    # a few numbers for each token.
    logits = tokens * draft * 4 if draft != TARGET else 0
    states = tokens * HIDDEN * 2
    assert states <= made["inputs"] <= logits + states + tokens * 64 + REQUESTS * 64
    assert not made["read_by_a_step"]


def test_switched_off_the_tables_are_the_trees_own(tree: DrivenTree) -> None:
    made = allocated(tree, 1, 3, TARGET, PATCH)
    assert made["tables"] >= 4 * REQUESTS * CONTEXT * 4
