"""Upstream's later changes of what default patches insert or change were reviewed, up to the latest release."""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import Any

import pytest
from support.releases import LATEST

from patchkit.patchset import load

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LATER: dict[str, Any] = tomllib.loads((load.BUILT_IN / "later.toml").read_text(encoding="utf-8"))
NAMES = {*LATER["functions"], *(name for names in LATER["functions"].values() for name in names if name)}


def changed_by_default() -> dict[str, set[str]]:
    """Return the functions and classes, by file, that a default patch may insert or change."""
    found: dict[str, set[str]] = defaultdict(set)
    for patch in load.patches():
        if patch.default:
            for address in (address for edit in patch.edits for address in edit.addresses):
                for file in address.files:
                    found[file].add(address.scope)
    return found


def test_upstreams_later_changes_of_each_function_of_a_default_patch_were_reviewed() -> None:
    changed, reviewed = changed_by_default(), LATER["functions"]
    files = {*changed, *reviewed}
    missing = {file: sorted(changed.get(file, set()) - {*reviewed.get(file, [])}) for file in files}
    stale = {file: sorted({*reviewed.get(file, [])} - changed.get(file, set())) for file in files}
    assert {file: names for file, names in missing.items() if names} == {}, (
        "review these in patches/later.toml"
    )
    assert {file: names for file, names in stale.items() if names} == {}, "no default patch changes these"


def test_the_review_reaches_the_latest_release() -> None:
    assert LATER["reviewed"] == LATEST


@pytest.mark.parametrize(
    "change", LATER["change"], ids=lambda change: str(change.get("pull", change["release"]))
)
def test_a_later_change_says_what_it_means_for_the_patches(change: dict[str, Any]) -> None:
    assert change.keys() - {"pull"} == {"release", "does", "in", "verdict", "why"}
    assert change["verdict"] in {"has", "mended", "none"}
    assert {*change["in"]} <= NAMES
    assert change["does"]
    assert change["why"]
