"""Chosen patches verify with those that they require."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from support.releases import REFERENCE, Releases, answer, checked, run

from patchkit.patchset import load

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("_parsed_once")


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


def test_patches_drawn_by_chance_verify(releases: Releases, tmp_path: Path) -> None:
    drawn = sorted(random.Random(20260722).sample(load.patches().ids, 4))
    tree = releases.copy(REFERENCE, tmp_path)
    run("apply", tree.root, *drawn)
    assert answer("verify", tree.root)["passed"]


def test_the_parts_that_upstreams_form_lacks_are_named(releases: Releases, tmp_path: Path) -> None:
    tree = releases.copy("0.5.14", tmp_path)
    run("apply", tree.root, "28856", "29343")
    note = "26424 is pending; it is upstream's without steps, and can fail: patchkit apply 26424"
    assert note in checked(tree.root, "postconditions").notes
