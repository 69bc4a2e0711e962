"""A draft over a part of the vocabulary: its v2 draft-extend's graph has logits as wide as the draft's head."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.driven.fixtures import without_and_with, without_and_with_each
from support.driven.trees import DrivenTree, ProbeError

if TYPE_CHECKING:
    from support.releases import Releases

RELEASES = ("0.5.11", "0.5.12.post1", "0.5.13.post1")
ASK = "graphs.logits_of_a_head"
LISTED = "flash_attention.captures_draft_extend"
before_and_after = without_and_with_each("28856", RELEASES)


def test_a_graph_starts_with_the_logits_of_a_token_map(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    with pytest.raises(ProbeError, match="must match the size"):
        before.ask(ASK, 5)
    assert after.ask(ASK, 5) == {"shape": [6, 5], "dtype": "torch.float32"}


def test_a_graph_of_the_whole_vocabulary_is_as_before(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    assert after.ask(ASK, None) == before.ask(ASK, None) == {"shape": [6, 32], "dtype": "torch.float32"}


@pytest.mark.parametrize("version", ["0.5.11", "0.5.12.post1"])
def test_a_backend_that_gets_a_graph_gets_one_with_the_logits_of_a_token_map(
    releases: Releases, version: str
) -> None:
    kinds = ["triton", "mla", "mha", "plain"]
    before, after = without_and_with(releases, version, "25002", "pk-fa3-draft-extend-graph", "28782")
    listed = [
        [
            kind
            for kind, does in tree.ask(LISTED, kinds, cuda=True, environment={}, token_map="map").items()
            if does
        ]
        for tree in (before, after)
    ]
    assert listed == [["triton", "mla"], ["triton", "mla", "mha"]]
    assert after.ask(ASK, 5)["shape"] == [6, 5]
