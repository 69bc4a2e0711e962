"""A release patched one patch at a time, in any order, equals the release patched with all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.releases import PATCHES, REFERENCE, Releases, after, texts
from support.sweeps import swept

from patchkit import api
from patchkit.patchset import load
from patchkit.plan.build import make_plan
from patchkit.plan.status import State
from patchkit.transaction.revert import recorded

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("_parsed_once")


def require_made_at_once(tree: CheckoutTree, releases: Releases) -> None:
    patches = tuple(patch for patch in PATCHES if patch.id in recorded(tree))
    made = texts(after(make_plan(releases.tree(REFERENCE), patches)))
    assert {file: tree.read(file) for file in made} == made
    others = {change.file for change in releases.plan(REFERENCE).changes} - made.keys()
    was = releases.tree(REFERENCE)
    assert {file: tree.read(file) for file in others} == {file: was.read(file) for file in others}


@pytest.mark.parametrize("pace", swept([1, 16], (16).__eq__))
def test_patches_that_come_and_go_in_any_order_leave_what_their_set_makes(
    releases: Releases, tmp_path: Path, pace: int
) -> None:
    tree, patches = releases.copy(REFERENCE, tmp_path), load.patches()
    # The later in the order of application, the earlier here: each brings what it requires.
    for name in ("25925", "31364", "26824", "29343", *patches.ids[-1::-pace]):
        if name not in recorded(tree):
            api.apply(tree, patches, (name,))
            require_made_at_once(tree, releases)
    api.apply(tree, patches, patches.ids)
    require_made_at_once(tree, releases)
    takes = {status.patch.id for status in releases.plan(REFERENCE).patches if status.state is State.PENDING}
    assert set(recorded(tree)) == takes
    for name in ("26380", "29343", "pk-fa3-branches", "32886", "26824"):
        api.revert(tree, patches, (name,))
        require_made_at_once(tree, releases)
    api.revert(tree, patches)
    assert recorded(tree) == ()
    require_made_at_once(tree, releases)
