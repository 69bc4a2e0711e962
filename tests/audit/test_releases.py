"""Releases with every patch have no certain finding, and an upstream crash outside of the backends is found."""

from __future__ import annotations

import pytest
from support.releases import HAVING, LATEST, Releases

from patchkit.audit.engine import audit
from patchkit.findings.finding import Confidence


@pytest.mark.parametrize("version", [HAVING[0], HAVING[-1], LATEST])
def test_nothing_certain_is_left_in_a_patched_release(releases: Releases, version: str) -> None:
    findings = audit(releases.patched(version)).findings
    assert [str(found) for found in findings if found.confidence is Confidence.CERTAIN] == []


def test_lists_that_a_verify_hands_to_a_dequantising_pool_are_found(releases: Releases) -> None:
    findings = audit(releases.tree(LATEST)).findings
    named = "MHATokenToKVPool._prepare_dequant_extend_workspace"
    (first, *_) = [found for found in findings if found.function == named]
    assert first.file == "srt/mem_cache/memory_pool.py"
    assert "FlashInferAttnBackend.forward_extend" in first.path[1].text
