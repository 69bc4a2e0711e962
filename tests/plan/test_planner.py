"""All plans for a tree come from one planner: for its current, other, or original contents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.toys import MIRROR, SOURCES, edit

from patchkit import api
from patchkit.errors import UsageError
from patchkit.patchset import load
from patchkit.plan.planner import Planner
from patchkit.plan.status import State
from patchkit.transaction.candidates import patch_base

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")


def test_files_with_other_contents_are_planned_as_those_have_them(tree: CheckoutTree) -> None:
    planner = Planner(tree, load.patches())
    other = {MIRROR: SOURCES[MIRROR].replace(b"class Mirror", b"class Renamed")}
    assert planner.plan(("t-guard",)).patches[-1].state is State.PENDING
    assert planner.plan(("t-guard",), contents=other).patches[-1].state is State.CONFLICT


@pytest.mark.parametrize(("first", "then"), [("t-guard", "t-flag"), ("t-flag", "t-guard")])
def test_a_later_patch_makes_of_the_files_what_both_make_of_the_base(
    tree: CheckoutTree, first: str, then: str
) -> None:
    planner = Planner(tree, load.patches())
    both = {change.file: change.after for change in planner.plan((first, then)).changes}
    api.apply(tree, load.patches(), (first,))
    planned = planner.combined_plan(planner.plan((then,)), patch_base(tree, planner))
    stands = {file: tree.read(file) for file in both}
    assert stands | {change.file: change.after for change in planned.changes} == both


def test_files_that_a_person_edited_since_have_no_base(tree: CheckoutTree) -> None:
    planner = Planner(tree, load.patches())
    assert patch_base(tree, planner) is None
    api.apply(tree, load.patches(), ("t-guard",))
    known = patch_base(tree, planner)
    assert known is not None
    assert (known.patches, dict(known.contents)) == (("t-guard",), {MIRROR: SOURCES[MIRROR]})
    edit(tree, MIRROR, b"class Mirror", b"mine = 1\n\n\nclass Mirror")
    assert patch_base(tree, planner) is None


def test_patches_that_are_not_at_hand_are_no_plan(tree: CheckoutTree) -> None:
    planner = Planner(tree, load.patches())
    with pytest.raises(UsageError, match="--patches DIR"):
        planner.plan_exactly(("t-guard", "x-own"), {MIRROR: SOURCES[MIRROR]})
    assert planner.present(SOURCES, ("t-guard", "x-own")) == frozenset()
