from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.toys import add_patch, attribute

from patchkit.errors import UsageError
from patchkit.patchset import load
from patchkit.patchset.select import GROUPS

if TYPE_CHECKING:
    from pathlib import Path

EDIT = attribute("srt/shelf.py", "Shelf", "wide = 1")


@pytest.fixture
def built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A seed, two patches for speed of which one is off, and one in no group."""
    folder = tmp_path / "built-in"
    add_patch(folder, "seed", EDIT, group='"seeds"')
    add_patch(folder, "fast", EDIT, group='"speed"', requires='["seed"]')
    add_patch(folder, "risky", EDIT, group='"speed"', default="false")
    add_patch(folder, "other", EDIT)
    monkeypatch.setattr(load, "BUILT_IN", folder)
    return folder


def test_groups_are_those_of_headers(built_in: Path) -> None:
    groups = {name: [patch.id for patch in group] for name, group in load.patches().groups.items()}
    assert groups == {"@seeds": ["seed"], "@speed": ["fast", "risky"]}


def test_a_group_means_those_that_are_on_with_what_they_require(built_in: Path) -> None:
    patches = load.patches()
    assert [patch.id for patch in patches.select(["@speed"])] == ["seed", "fast"]
    assert [patch.id for patch in patches.select(["@speed", "risky"])] == ["seed", "fast", "risky"]


def test_a_group_of_which_every_patch_is_off_means_none(built_in: Path) -> None:
    add_patch(built_in, "alone", EDIT, group='"trial"', default="false")
    assert load.patches().select(["@trial"]) == ()


def test_patches_of_ones_own_join_a_group_or_make_one(built_in: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    add_patch(own, "acme-fast", EDIT, group='"speed"')
    add_patch(own, "acme-view", EDIT, group='"acme"')
    groups = load.patches([own]).groups
    assert [patch.id for patch in groups["@speed"]] == ["fast", "risky", "acme-fast"]
    assert [patch.id for patch in groups["@acme"]] == ["acme-view"]


def test_an_unknown_group_is_refused_with_the_nearest(built_in: Path) -> None:
    with pytest.raises(UsageError, match=r"^no group is called '@sped': did you mean @speed\? .*@seeds"):
        load.patches().select(["@sped"])


def test_no_name_is_offered_that_is_not_near(built_in: Path) -> None:
    with pytest.raises(UsageError, match=r"^no patch is called 'zzz': patchkit show lists them all"):
        load.patches().get("zzz")


def test_the_requested_patches_are_those_named_and_their_requirements(built_in: Path) -> None:
    assert load.patches().requested(["@speed"]) == {"fast", "seed"}
    assert load.patches().requested([]) == frozenset()


def test_a_group_is_a_name(built_in: Path) -> None:
    path = add_patch(built_in, "other", EDIT, group='"two words"')
    with pytest.raises(UsageError, match=rf"^{path}.*group"):
        load.patches()


def test_every_built_in_patch_is_in_a_group_whose_gain_is_told() -> None:
    patches = load.patches()
    assert {name.removeprefix("@") for name in patches.groups} == set(GROUPS)
    assert {patch.id for group in patches.groups.values() for patch in group} == set(patches.ids)
