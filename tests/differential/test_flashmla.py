"""FlashMLA plans the same without the mirror, and extends its draft by its own kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.driven.fixtures import without_and_with_each
from support.driven.trees import ProbeError

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

Both = tuple["DrivenTree", "DrivenTree"]
TOKENS, PAGE = 4, 64
SERVER = {"draft_tokens": TOKENS, "page_size": PAGE, "context": 4 * PAGE}
MODES = pytest.mark.parametrize("mode", ["decode", "verify"])
BATCH = {"rows": [2, 0, 1], "lens": [70, 1, 129], "accepted": [1, 1, 1]}


before_and_after = without_and_with_each("31090", ["0.5.11", "0.5.12.post1", "0.5.13", "0.5.14"])


def test_a_backend_and_its_draft_declare_that_they_read_no_mirror(before_and_after: Both) -> None:
    before, after = before_and_after
    assert before.ask("flashmla.needs") == [True, True]
    assert after.ask("flashmla.needs") == [False, False]
    assert after.ask("flashmla.needs", "31090") == [True, True]
    assert after.ask("flashmla.needs", shards=2) == [True, True]


@MODES
def test_an_eager_plan_is_the_one_with_the_mirror(before_and_after: Both, mode: str) -> None:
    before, after = before_and_after
    was = before.ask("flashmla.eager", SERVER, mode, BATCH, True)
    assert after.ask("flashmla.eager", SERVER, mode, BATCH, True) == was
    result = after.ask("flashmla.eager", SERVER, mode, BATCH, False)
    assert result["plan"] == was["plan"]
    # A verify asks what stands for the mirror on the host.
    assert result["reads"] == {"decode": 0, "verify": was["reads"]}[mode]


@MODES
def test_a_request_that_is_launched_once_more_at_its_limit_has_all_its_pages(
    before_and_after: Both, mode: str
) -> None:
    before, after = before_and_after
    # The draft tokens of the last verify are behind the context's last page.
    context = {"decode": 4 * PAGE, "verify": 4 * PAGE - TOKENS}[mode]
    server, batch = SERVER | {"context": context}, {**BATCH, "lens": [70, 1, context + 2]}
    was = before.ask("flashmla.eager", server, mode, batch, True)
    assert after.ask("flashmla.eager", server, mode, batch, False)["plan"] == was["plan"]


@MODES
def test_a_replays_plan_is_the_one_with_the_mirror(before_and_after: Both, mode: str) -> None:
    before, after = before_and_after
    batch = BATCH | {"graph": 4}
    was = before.ask("flashmla.replayed", SERVER, mode, batch, True)
    assert after.ask("flashmla.replayed", SERVER, mode, batch, True) == was
    result = after.ask("flashmla.replayed", SERVER, mode, batch, False)
    assert result["plan"] == was["plan"]
    if before.ask("flashmla.extends_by_flashinfer"):
        # Unpatched, a replay without the mirror fetches the longest length from the device.
        assert before.ask("flashmla.replayed", SERVER, mode, batch, False)["reads"] > 0
        assert result["reads"] == 0
    else:
        # The tree asks the mirror, or what stands for it on the host.
        assert result["reads"] == was["reads"]


@pytest.mark.parametrize("mirror", [True, False])
def test_a_draft_extend_is_the_verify_of_the_tokens_before_it(before_and_after: Both, mirror: bool) -> None:
    _, after = before_and_after
    before_it = {**BATCH, "lens": [66, 1, 125]}
    lens = [length + TOKENS for length in before_it["lens"]]
    extend = {**BATCH, "lens": lens, "accepted": [TOKENS] * 3}
    result = after.ask("flashmla.draft_extend", SERVER, extend, mirror=mirror)
    verify = after.ask("flashmla.eager", SERVER, "verify", before_it, False)
    assert result["plan"] == verify["plan"]
    assert result["reads"] == verify["reads"]
    assert result["lens"] == result["lens behind"] == lens
    assert result["queries"][:2] == [3, TOKENS]
    assert result["table"] == result["plan"]["pages"]
    assert result["written"] == [list(range(3 * TOKENS))]
    assert result["mode"] == "DRAFT_EXTEND_V2"


@pytest.mark.parametrize("padded", [4, 6])
def test_a_draft_extend_that_the_tree_pads_is_planned_for_all_its_requests(
    before_and_after: Both, padded: int
) -> None:
    _, after = before_and_after
    lens = [length + TOKENS for length in (66, 1, 125)]
    extend = {**BATCH, "lens": lens, "accepted": [TOKENS] * 3}
    alone = after.ask("flashmla.draft_extend", SERVER, extend)
    result = after.ask("flashmla.draft_extend", SERVER, extend, padded=padded)
    assert result["queries"][:2] == [padded, TOKENS]
    assert result["lens"] == lens + [TOKENS] * (padded - 3)
    assert result["table"][:3] == alone["table"]


def test_a_draft_extend_that_is_switched_off_is_what_it_was(before_and_after: Both) -> None:
    before, after = before_and_after
    extend: dict[str, Any] = {**BATCH, "lens": [70, 5, 129], "accepted": [TOKENS] * 3}
    if not before.ask("flashmla.extends_by_flashinfer"):
        for tree, switched in ((before, ""), (after, "31090")):
            with pytest.raises(ProbeError, match="block_kv_indices"):
                tree.ask("flashmla.draft_extend", SERVER, extend, switched, mirror=True)
        return
    was = before.ask("flashmla.draft_extend", SERVER, extend, mirror=True)
    assert was["by"] == "FlashInfer"
    assert after.ask("flashmla.draft_extend", SERVER, extend, "31090", mirror=True) == was
