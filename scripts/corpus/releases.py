"""The cases of a release: states and bytes after an apply, after the revert of each patch alone, and of all."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from support.releases import unpack

from corpus.digests import content, digest
from patchkit import api
from patchkit.errors import PatchkitError
from patchkit.patchset import load
from patchkit.plan.status import State
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree


def states(tree: CheckoutTree, patches: PatchSet) -> dict[str, str]:
    """Return each patch's state."""
    return {status.patch.id: status.state.value for status in api.status(tree, patches)}


def fitting(tree: CheckoutTree, patches: PatchSet) -> list[str]:
    """Return the opt-in patches that are pending and do not conflict with the tree as it is now."""
    statuses = api.status(tree, patches)
    return [status.patch.id for status in statuses if status.patch.opt_in and status.state is State.PENDING]


def reverted(tree: CheckoutTree, patches: PatchSet, name: str) -> str:
    """Return the content of a copy without one patch, or the kind of error; the key names what is left."""
    with tempfile.TemporaryDirectory() as folder:
        copy = open_tree(shutil.copytree(tree.root, Path(folder) / "tree", symlinks=True))
        try:
            api.revert(copy, patches, [name])
        except PatchkitError as error:
            return type(error).__name__
        return content(copy)


def cases(release: str) -> dict[str, str]:
    """Return the digest of each case of a release."""
    patches = load.patches()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "release"
        unpack(release, place)
        tree = open_tree(place)
        original = content(tree)
        found = {"original": original, "states": digest([json.dumps(states(tree, patches)).encode()])}
        applied = frozenset[str]()
        for which in ("default", "opt-in"):
            names = fitting(tree, patches) if which == "opt-in" else []
            if which == "opt-in" and not names:
                continue
            api.apply(tree, patches, names, keep_going=True)
            now = states(tree, patches)
            applied = frozenset(name for name, state in now.items() if state == State.APPLIED)
            found[f"{which} applied"] = content(tree)
            found[f"{which} states"] = digest([json.dumps(now).encode()])
            for name in sorted(applied):
                left = digest([" ".join(sorted(applied - {name})).encode()])
                found[f"{which} left {left}"] = reverted(tree, patches, name)
        api.revert(tree, patches)
        found["all reverted"] = "original" if content(tree) == original else content(tree)
        return found
