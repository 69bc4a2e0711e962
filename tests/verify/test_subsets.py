"""Chosen patches verify with those that they require; without what hardens them, verify names what is left out."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from support.releases import REFERENCE, Releases, answer, run
from support.sweeps import swept

from patchkit.patchset import load

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("_parsed_once")


def checks(reply: dict[str, Any]) -> dict[str, Any]:
    return {check["check"]: check for check in reply["checks"]}


@pytest.mark.parametrize(
    ("version", "picked"),
    [
        (REFERENCE, "25002"),
        pytest.param(REFERENCE, "26824", marks=pytest.mark.sweep),
        ("0.5.13", "28039"),
        ("0.5.13", "31090"),
        pytest.param("0.5.14", "31090", marks=pytest.mark.sweep),
    ],
)
def test_a_picked_patch_verifies(releases: Releases, tmp_path: Path, version: str, picked: str) -> None:
    tree = releases.copy(version, tmp_path)
    run("apply", tree.root, picked)
    assert answer("verify", tree.root)["passed"]


@pytest.mark.parametrize("only", swept([False, True], bool))
def test_patches_drawn_by_chance_verify_or_verify_names_what_was_left_out(
    releases: Releases, tmp_path: Path, only: bool
) -> None:
    patches = load.patches()
    chance = random.Random(20260722)
    missing: list[str] = []
    while not missing:
        drawn = sorted(chance.sample(patches.ids, 4))
        there = {patch.id for patch in patches.select(drawn, only=only)}
        hardening = [patch for patch in patches if patch.default and there.intersection(patch.hardens)]
        missing = [patch.id for patch in hardening if patch.id not in there]
        if not only:
            assert missing == []
            break
    tree = releases.copy(REFERENCE, tmp_path)
    run("apply", tree.root, *drawn, *(["--only"] if only else []))
    found = checks(answer("verify", tree.root, code=int(only)))
    failed = [name for name, check in found.items() if check["outcome"] == "failed"]
    assert failed == (["audit"] if only else [])
    notes = "\n".join(found["postconditions"]["notes"])
    assert [name for name in missing if f"patchkit apply {name}" not in notes] == []


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
