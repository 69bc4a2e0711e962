"""Patches that somebody picks verify with what they need; without what hardens them, verify names what is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.releases import REFERENCE, Releases, answer, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("_parsed_once")


def checks(reply: dict[str, Any]) -> dict[str, Any]:
    return {check["check"]: check for check in reply["checks"]}


@pytest.mark.parametrize("picked", ["25002", "26824"])
def test_a_picked_patch_verifies(releases: Releases, tmp_path: Path, picked: str) -> None:
    tree = releases.copy(REFERENCE, tmp_path)
    run("apply", tree.root, picked)
    assert answer("verify", tree.root)["passed"]


def test_what_hardens_a_patch_and_was_left_out_is_named_beside_the_failure(
    releases: Releases, tmp_path: Path
) -> None:
    tree = releases.copy(REFERENCE, tmp_path)
    run("apply", tree.root, "26128", "--only")
    found = checks(answer("verify", tree.root, code=1))
    assert [name for name, check in found.items() if check["outcome"] == "failed"] == ["audit"]
    notes = "\n".join(found["postconditions"]["notes"])
    for name in ("26738", "pk-metrics", "pk-mirror-guards"):
        assert f"without it 26128 can fail: patchkit apply {name}" in notes
