"""A server that speculates refuses structured output whose grammar cannot take back a draft token."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.driven.fixtures import without_and_with_each
from support.driven.trees import ProbeError

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

before_and_after = without_and_with_each("24413", ("0.5.11", "0.5.12.post1", "0.5.18"))
REFUSED = "does not work with speculative decoding and --grammar-backend outlines"


def test_outlines_cannot_verify_a_draft(before_and_after: tuple[DrivenTree, DrivenTree]) -> None:
    before, _ = before_and_after
    # A draft that its mask, read in another layout, forbids leaves the rest of the chain without a constraint.
    assert before.ask("structured_output.verified", [5], [1, 5, 5])[1:] == [[], []]
    # One that it allows cannot be taken back.
    with pytest.raises(ProbeError, match="NotImplementedError"):
        before.ask("structured_output.verified", [5], [1, 32, 5])


@pytest.mark.parametrize("kind", ["outlines", "reasoning"])
@pytest.mark.parametrize("algorithm", ["EAGLE3", "NGRAM", "STANDALONE"])
def test_such_a_request_is_refused_and_no_other(
    before_and_after: tuple[DrivenTree, DrivenTree], kind: str, algorithm: str
) -> None:
    before, after = before_and_after
    assert before.ask("structured_output.answered", kind, algorithm, "{}") == "compiled"
    assert REFUSED in after.ask("structured_output.answered", kind, algorithm, "{}")
    for tree in before_and_after:
        assert tree.ask("structured_output.answered", kind, algorithm, None) == "unconstrained"
        assert tree.ask("structured_output.answered", kind, None, "{}") == "compiled"
        assert tree.ask("structured_output.answered", "other", algorithm, "{}") == "compiled"
        assert "--grammar-backend none" in tree.ask("structured_output.answered", "none", algorithm, "{}")
