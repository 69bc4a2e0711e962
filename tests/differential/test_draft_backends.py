"""Draft and target of a model with multi-head latent attention each compute as their own backend needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.driven.fixtures import without_and_with_each

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

TARGETS = {
    "target prefill": ["trtllm_mla", "trtllm_mla", "MHA_CHUNKED_KV"],
    "target decode": ["trtllm_mla", "trtllm_mla", "MLA"],
}
OWN = {
    "draft prefill": ["triton", "triton", "MHA"],
    "draft step": ["triton", "triton", "MLA"],
}

before_and_after = without_and_with_each("28559", ["0.5.11", "0.5.13.post1"])


def test_a_draft_on_a_backend_of_its_own_is_not_run_as_the_targets(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    mistaken = {
        "draft prefill": ["triton", "trtllm_mla", "MHA_CHUNKED_KV"],
        "draft step": ["triton", "trtllm_mla", "MLA"],
    }
    assert before.ask("backend_names.of_each_part", "trtllm_mla", "triton") == TARGETS | mistaken
    assert after.ask("backend_names.of_each_part", "trtllm_mla", "triton") == TARGETS | OWN


def test_a_draft_that_starts_after_its_target_leaves_the_target_its_backend(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    result = before.ask("backend_names.of_each_part", "trtllm_mla", "triton", settings_of_its_own=True)
    assert result["target prefill"] == ["trtllm_mla", "triton", "MHA"]
    result = after.ask("backend_names.of_each_part", "trtllm_mla", "triton", settings_of_its_own=True)
    assert {part: result[part] for part in TARGETS} == TARGETS


@pytest.mark.parametrize("name", ["trtllm_mla", "triton"])
def test_a_draft_without_a_backend_of_its_own_follows_the_targets_as_it_did(
    before_and_after: tuple[DrivenTree, DrivenTree], name: str
) -> None:
    before, after = before_and_after
    result = after.ask("backend_names.of_each_part", name, None)
    assert result == before.ask("backend_names.of_each_part", name, None)
    assert {kind for kind, followed, _ in result.values()} == {followed for _, followed, _ in result.values()}
