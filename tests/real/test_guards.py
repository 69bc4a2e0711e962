"""What makes a patch safe goes when the patch goes, and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.releases import REFERENCE, answer, run, states_in

if TYPE_CHECKING:
    from pathlib import Path

    from support.releases import Releases

pytestmark = pytest.mark.usefixtures("_parsed_once")


def certain(tree: Path) -> list[dict[str, Any]]:
    """Return the findings of the audit that are more than possible."""
    return [each for each in answer("audit", tree)["findings"] if each["confidence"] != "possible"]


def test_a_patch_that_stays_because_a_colleague_renamed_a_method_keeps_its_guards(
    releases: Releases, tmp_path: Path
) -> None:
    tree = releases.copy(REFERENCE, tmp_path).root
    run("apply", tree, "28633")
    for path in tree.rglob("*.py"):
        text = path.read_bytes()
        if b"maybe_wait_verify_done" in text:
            path.write_bytes(text.replace(b"maybe_wait_verify_done", b"wait_for_verify"))
    message = run("revert", tree, "26128", code=3).stderr
    assert "cannot stay without 26128" in message
    assert "patchkit revert 2" not in message
    assert "nor can they be reverted together" in message
    reverted = answer("revert", tree, "--keep-going", code=1)
    assert "26128" in [each["patch"] for each in reverted["left"]]
    assert states_in(answer("status", tree))["26128"] != "pending"
    assert certain(tree) == []
