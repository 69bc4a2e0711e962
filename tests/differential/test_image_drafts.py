"""A draft reads each prompt with images as it reads it alone, and each token behind it at its own position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.driven.fixtures import without_and_with_each

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

MODELS = ("llama_eagle3.LlamaModel", "qwen3_5_mtp.Qwen3_5ForCausalLMMTP")
KIMI = "kimi_k25_eagle3.Eagle3MLAModel"

embedding = without_and_with_each("27846", ("0.5.11", "0.5.13.post1"))


@pytest.mark.parametrize("model", MODELS)
def test_the_last_token_of_each_prompt_of_a_batch_is_embedded_by_the_draft(
    embedding: tuple[DrivenTree, DrivenTree], model: str
) -> None:
    before, after = embedding
    assert before.ask("image_drafts.embedded", model, [2, 3, 1]) == [-1, -2, -3, -4, -5, 6]
    assert after.ask("image_drafts.embedded", model, [2, 3, 1]) == [-1, 2, -3, -4, 5, 6]


@pytest.mark.parametrize("model", MODELS)
def test_a_prompt_alone_is_embedded_as_it_was(embedding: tuple[DrivenTree, DrivenTree], model: str) -> None:
    for tree in embedding:
        assert tree.ask("image_drafts.embedded", model, [3]) == [-1, -2, 3]


kimis = without_and_with_each("27846", ("0.5.12.post1",))


def test_the_draft_of_kimi_embeds_the_last_token_of_each_prompt_too(
    kimis: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = kimis
    assert before.ask("image_drafts.embedded", KIMI, [2, 1]) == [-1, -2, 3]
    assert after.ask("image_drafts.embedded", KIMI, [2, 1]) == [-1, 2, 3]


# ---- positions of tokens behind a prompt --------------------------------------------------------------------

TOKENS = 3

positions = without_and_with_each("28464", ("0.5.11", "0.5.13.post1"))


def rows(tree: DrivenTree, images: list[int | None]) -> Any:
    """Return the three rows of positions of a draft-extend; a request's image moves what follows by a number."""
    prefixes = [12, 20, 15][: len(images)]
    case = {
        "mode": "DRAFT_EXTEND_V2",
        "lens": [prefix + TOKENS for prefix in prefixes],
        "prefix": prefixes,
        "extend": [TOKENS] * len(prefixes),
        "images": images,
        "mrope": True,
        "mirror": True,
        "sum": True,
    }
    return tree.ask("forward_batches.make", case)["mrope_positions"]


def test_each_token_of_a_draft_extend_behind_an_image_has_its_own_position(
    positions: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = positions
    assert rows(before, [7, None, -4]) == [[21, 20, 21, 22, 13]] * 3
    assert rows(after, [7, None, -4]) == [[19, 20, 21, 20, 21, 22, 11, 12, 13]] * 3


def test_a_draft_extend_without_images_has_the_positions_that_it_had(
    positions: tuple[DrivenTree, DrivenTree],
) -> None:
    for tree in positions:
        assert rows(tree, [None, None]) == [[12, 13, 14, 20, 21, 22]] * 3
