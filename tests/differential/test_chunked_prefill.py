"""A draft reads the prompt's own next token where a chunk of the prompt ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.driven.fixtures import without_and_with_each
from support.driven.trees import DrivenTree, as_released

if TYPE_CHECKING:
    from support.releases import Releases

UPSTREAMS = "0.5.14"
VOCABULARY = 1000
WHOLE = {"prompt": [30, 31, 32], "start": 0, "end": 3}
CHUNK = {"prompt": [10, 11, 12, 13, 14], "start": 1, "end": 3}
LAST = CHUNK | {"start": 3, "end": 5}
# What stands for an image lies outside the vocabulary.
BEFORE_IMAGE = CHUNK | {"prompt": [10, 11, 12, 5000, 14]}
# A request that was taken back continues behind its prompt.
TAKEN_BACK = {"prompt": [20, 21], "output": [22, 23], "start": 0, "end": 4}


before_and_after = without_and_with_each("26800", ["0.5.11", "0.5.12.post1"])


@pytest.fixture(scope="module")
def upstreams(releases: Releases) -> DrivenTree:
    return as_released(releases, UPSTREAMS)


def read(tree: DrivenTree, *requests: dict[str, Any]) -> list[int]:
    sampled = [900 + row for row in range(len(requests))]
    result = tree.ask("prefills.draft_input", [*requests], sampled, vocabulary=VOCABULARY)
    assert result["sampled"] == sampled
    tokens: list[int] = result["read"]
    return tokens


def test_a_chunk_that_is_not_the_last_ends_with_the_prompts_next_token(
    before_and_after: tuple[DrivenTree, DrivenTree], upstreams: DrivenTree
) -> None:
    before, after = before_and_after
    assert read(before, WHOLE, CHUNK) == [31, 32, 900, 12, 901]
    assert read(after, WHOLE, CHUNK) == read(upstreams, WHOLE, CHUNK) == [31, 32, 900, 12, 13]


@pytest.mark.parametrize(
    "request_", [WHOLE, LAST, BEFORE_IMAGE, TAKEN_BACK], ids=["whole", "last", "image", "back"]
)
def test_what_ends_otherwise_ends_with_the_token_that_the_target_sampled(
    before_and_after: tuple[DrivenTree, DrivenTree], upstreams: DrivenTree, request_: dict[str, Any]
) -> None:
    before, after = before_and_after
    result = read(after, request_)
    assert result == read(before, request_) == read(upstreams, request_)
    assert result[-1] == 900
