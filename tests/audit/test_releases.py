"""Releases with every patch have no finding that fails a check, and an upstream crash outside backends is found."""

from __future__ import annotations

import pytest
from support.releases import HAVING, LATEST, PATCHES, Releases, after

from patchkit.audit.engine import audit
from patchkit.findings.finding import Confidence
from patchkit.plan.build import make_plan
from patchkit.tree.tree import OverlayTree


@pytest.mark.parametrize(
    ("version", "left"),
    [
        (HAVING[0], {Confidence.POSSIBLE}),
        (HAVING[-1], {Confidence.POSSIBLE}),
        # Upstream's own backends read more than the audit can follow there.
        pytest.param(LATEST, {Confidence.POSSIBLE, Confidence.LIKELY}, marks=pytest.mark.sweep),
    ],
)
def test_every_patch_together_leaves_no_finding_that_fails_a_check(
    releases: Releases, version: str, left: set[Confidence]
) -> None:
    findings = audit(releases.patched(version)).findings
    assert [str(finding) for finding in findings if finding.confidence not in left] == []


BETWEEN_A_VERIFY_AND_ITS_POOL = (
    *(f"srt/layers/attention/{name}" for name in ("base_attn_backend.py", "flashinfer_backend.py", "hybrid")),
    *("srt/managers/schedule_batch.py", "srt/mem_cache/", "srt/model_executor/forward_batch_info.py"),
    "srt/speculative/spec_info.py",
)


def test_lists_that_a_verify_hands_to_a_dequantising_pool_are_found(releases: Releases) -> None:
    whole = releases.tree(LATEST)
    aside = (file for file in whole.files("") if not file.startswith(BETWEEN_A_VERIFY_AND_ITS_POOL))
    findings = audit(OverlayTree(whole, dict.fromkeys(aside))).findings
    named = "MHATokenToKVPool._prepare_dequant_extend_workspace"
    (first, *_) = [finding for finding in findings if finding.function == named]
    assert first.file == "srt/mem_cache/memory_pool.py"
    assert "FlashInferAttnBackend.forward_extend" in first.path[1].text


def test_a_batch_that_a_test_reads_on_one_way_only_is_known_behind_it(releases: Releases) -> None:
    grammars = tuple(patch for patch in PATCHES if patch.id == "28039")
    tree = after(make_plan(releases.tree(HAVING[0]), grammars))
    file, condition = "srt/disaggregation/decode.py", b"self.is_disable_overlap_for_batch(batch)"
    source = tree.read(file) or b""
    both = condition + b" and self.last_batch:"
    assert source.count(both) == 1
    swapped = OverlayTree(tree, {file: source.replace(both, b"self.last_batch and " + condition + b":")})
    one, other = (
        {
            (finding.file, finding.function, finding.rule, finding.confidence)
            for finding in audit(each).findings
        }
        for each in (tree, swapped)
    )
    assert one == other
