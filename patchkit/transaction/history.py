"""Find the contents of files from before the patches in git's history, which is the same in every clone."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import ConflictError, TreeError
from patchkit.plan import vendor
from patchkit.plan.comments import TRACE, commenting_patches, is_patched
from patchkit.transaction.current import absent
from patchkit.tree.checkout import Checkout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from patchkit.tree.tree import CheckoutTree

_MAX_RENAMES = 50
"""The most renames of one file that are followed."""
REVERTED = "Patchkit-Revert"
"""The trailer, once for each patch, of a commit that reverts patches."""
_PREFETCHED = 16
"""The most contents of one file in history that are read before they are needed."""


def new_files(tree: CheckoutTree, files: Iterable[str]) -> tuple[Path, ...]:
    """Return what ``git commit -a`` leaves out of a write of these files and the record: what git does not track yet.

    Several files of the record or of the vendored runtime are named by their folder. There are none where git does not
    track the package, ignores them, or cannot tell.
    """
    with suppress(TreeError):
        checkout, record = Checkout.tracking(tree.package), tree.record_path
        folders = [tree.package / vendor.FOLDER, *filter(None, (record,))]
        names = checkout.untracked((*files, *map(str, folders))) if checkout is not None else []
        gone = frozenset(absent(tree).values())
        folders = folders[:1] if gone else folders
        places = [Path(os.path.normpath(tree.package / name)) for name in names]
        return tuple(
            dict.fromkeys(
                next((folder for folder in folders if folder in place.parents), place)
                for place in places
                if place not in gone
            )
        )
    return ()


class Original(NamedTuple):
    """A file from before its patches, and the patches of which it had a comment in HEAD or in a commit since.

    Those that patchkit reverted in a commit of its own are not among them.
    """

    content: bytes | None
    patches: frozenset[str]


def originals_of(tree: CheckoutTree, checkout: Checkout, files: Iterable[str]) -> dict[str, Original]:
    """Return the last content of each file without a trace of patches: in HEAD, or before the commit that added one.

    A file in which no commit had one, under any of its names, was not patched: its content in HEAD is the original.
    Raise ConflictError if git does not have it.
    """
    names = list(files)
    if not names:
        return {}
    try:
        touching = checkout.touching(TRACE, names)
        places = [(parent, file) for file in names for _, parent in touching.get(file, ())[:_PREFETCHED]]
        read_at = checkout.reader([*(("HEAD", file) for file in names), *places])
        commits = {commit for pairs in touching.values() for commit, _ in pairs}
        history = _History(tree, checkout, read_at, checkout.trailers(REVERTED, commits))
        return {file: _original_of(history, file, touching.get(file, ())) for file in names}
    except TreeError as error:
        raise ConflictError(
            f"git cannot read the files from before the patches: {error.what}",
            advice="run git fsck there; in a partial clone, run git fetch --refetch",
        ) from None


class _History(NamedTuple):
    """A tree, its checkout, a reader of contents by commit and name, and the patches that commits reverted."""

    tree: CheckoutTree
    checkout: Checkout
    at: Callable[[str, str], bytes | None]
    reverts: Mapping[str, frozenset[str]]


def _original_of(history: _History, file: str, touching: Iterable[tuple[str, str]]) -> Original:
    tree, checkout, read_at, reverts = history
    current, committed = tree.read(file), read_at("HEAD", file)
    patches = commenting_patches(committed or b"")
    renames, name, since = 0, file, "HEAD"
    pairs = list(touching)
    if not is_patched(committed):
        # A patch whose comments were removed and committed is in HEAD, which is then not the original.
        if committed != current:
            return Original(committed, patches)
        is_whole = not checkout.is_shallow
        while (
            not pairs and is_whole and renames < _MAX_RENAMES and (moved := checkout.moved_from(name, since))
        ):
            (name, since), renames = moved, renames + 1
            pairs = checkout.touching(TRACE, [name], since).get(name, [])
        if not pairs and is_whole:
            return Original(committed, patches)  # No commit ever patched it.
        if pairs and pairs[0][0] in reverts:
            return Original(committed, patches)
    reverted = frozenset[str]()
    while pairs and renames < _MAX_RENAMES:
        commit, parent = pairs.pop(0)
        reverted |= reverts.get(commit, frozenset())
        content = read_at(parent, name)
        if content is None and (old_name := checkout.renamed(parent, commit, name)) is not None:
            name, renames = old_name, renames + 1
            content = read_at(parent, name)
            pairs = checkout.touching(TRACE, [name], parent).get(name, [])
        if not is_patched(content):
            return Original(content, patches)
        patches |= commenting_patches(content or b"") - reverted
    raise ConflictError(
        "neither the record nor this clone has the file from before the patches",
        where=file,
        advice="run git fetch --unshallow" if checkout.is_shallow else "restore the file from the release",
    )
