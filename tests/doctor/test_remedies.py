"""Doctor names the patches that free a release's mirror: those with which the tree's own decision frees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.releases import PATCHES

from patchkit.audit.runners import AuditedProgram
from patchkit.doctor.command_line import command_of
from patchkit.doctor.options import Arguments
from patchkit.doctor.remedies import Trials
from patchkit.doctor.server import outcomes
from patchkit.plan.status import PatchStatus, State
from patchkit.tree.index import read_sources

if TYPE_CHECKING:
    from support.releases import Releases

    from patchkit.doctor.outcome import ServerOutcome

DRAFTS = "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"


def _is_read(cls: str) -> Any:
    def keeps(outcome: ServerOutcome) -> bool:
        return any(role.reads and role.cls == cls for role in outcome.roles)

    return keeps


def test_flash_attentions_draft_steps_are_freed_by_a_patch_that_does_not_edit_their_class(
    releases: Releases,
) -> None:
    tree: Any = releases.tree("0.5.14")
    words = f"--attention-backend fa3 --speculative-algorithm EAGLE3 {DRAFTS}"
    statuses = [PatchStatus(patch, State.PENDING, (), "") for patch in PATCHES]
    launch = Arguments(tree).launch(command_of(words.split()))
    trials = Trials(tree, AuditedProgram(read_sources(tree)), launch, statuses)
    candidates = trials.opting_out(["srt/layers/attention/flashattention_backend.py"])
    assert {"29343", "31364"} <= set(candidates)
    found = trials.freeing(["29343", "31364"], [{}], _is_read("FlashAttentionMultiStepBackend"))
    left = {remedy.patches: remedy.kept for remedy in found}
    assert set(left) == {("29343",), ("31364",)}
    assert len(left["29343",]) < len(left["31364",])


def test_prefill_on_triton_and_decode_on_trtllm_mha_have_a_cause(releases: Releases) -> None:
    tree: Any = releases.tree("0.5.14")
    words = "--prefill-attention-backend triton --decode-attention-backend trtllm_mha --speculative-algorithm EAGLE3"
    found = outcomes(
        AuditedProgram(read_sources(tree)), Arguments(tree).launch(command_of(f"{words} {DRAFTS}".split()))
    )
    for _, outcome in found:
        assert outcome.kept
        assert [role.cls for role in outcome.roles if role.reads] == ["HybridAttnBackend"]
