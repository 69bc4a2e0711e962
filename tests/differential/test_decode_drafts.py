"""A decode server whose algorithm has no draft state for a new request does not start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.driven.fixtures import without_and_with

if TYPE_CHECKING:
    from support.releases import Releases

REFUSED = "{} does not run with --disaggregation-mode decode in this release: "
LATER = "speculative-draft-model-path"
"""Of the check behind it, which a server without a draft fails."""


@pytest.mark.parametrize(
    ("version", "algorithm"),
    [("0.5.14", "DFLASH"), ("0.5.16", "DFLASH"), ("0.5.16", "DSPARK"), ("0.5.19", "DFLASH")],
)
def test_a_decode_server_without_a_draft_state_for_its_requests_is_refused(
    releases: Releases, version: str, algorithm: str
) -> None:
    before, after = without_and_with(releases, version, "36140")
    assert before.ask("decode_drafts.made", algorithm) is False
    assert LATER in before.ask("decode_drafts.refused", algorithm, "decode")
    assert after.ask("decode_drafts.refused", algorithm, "decode").startswith(REFUSED.format(algorithm))
    for mode in ("null", "prefill"):
        assert LATER in after.ask("decode_drafts.refused", algorithm, mode)
