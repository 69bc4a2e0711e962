"""Find files with uncommitted changes, so that apply does not overwrite them, and patches that are not committed."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.plan.comments import commenting_patches
from patchkit.transaction.current import current_record
from patchkit.tree.checkout import Checkout

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from patchkit.transaction.write import Place
    from patchkit.tree.tree import CheckoutTree


def uncommitted(
    package: Path, files: Mapping[str, tuple[Place, bytes]], missing: Collection[str] = ()
) -> list[str]:
    """Return the files that differ from HEAD or the index, and of the ``missing`` ones those that these have.

    Line ends are ignored. Return none if no git checkout tracks the package. Raise TreeError if git fails.
    """
    if not (files or missing):
        return []
    checkout = Checkout.tracking(package)
    if checkout is None:
        return []
    names = {"/".join((*place.folders, place.name)): file for file, (place, _) in files.items()}
    paths = (*names, *missing)
    committed, staged = checkout.committed(paths), checkout.staged(paths)
    differing = [
        file
        for name, file in names.items()
        if name not in committed
        or staged.get(name) != committed[name]
        or not checkout.is_content(committed[name], files[file][1])
    ]
    return sorted(differing) + sorted({*committed, *staged}.difference(names))


def uncommitted_error(package: Path, files: Sequence[str], advice: str) -> TreeError:
    """Return the error for files with uncommitted changes, which git may be told not to show."""
    update = ("git", "-C", str(package), "update-index")
    commands = [
        shlex.join((*update, option, *names)) for option, names in Checkout(package).hidden(files).items()
    ]
    if commands:
        advice = f"{' && '.join(commands)} lets git show them; {advice}"
    return TreeError("uncommitted changes", where=", ".join(files), advice=advice)


def uncommitted_patches(tree: CheckoutTree) -> dict[str, list[str]]:
    """Return the patches in the record that have comments in the tree but not in HEAD, each with the files of these.

    Raise TreeError if git fails.
    """
    record = current_record(tree)
    added = uncommitted_comments(tree, sorted(record.files))
    added_files = {name: [file for file, names in added.items() if name in names] for name in record.patches}
    return {name: files for name, files in added_files.items() if files}


def uncommitted_comments(tree: CheckoutTree, files: Collection[str]) -> dict[str, frozenset[str]]:
    """Return the patches of which each file has a comment in the tree but not in HEAD. Raise TreeError if git fails."""
    read_at = Checkout(tree.package).reader([("HEAD", file) for file in files])
    return {
        file: commenting_patches(tree.read(file) or b"") - commenting_patches(read_at("HEAD", file) or b"")
        for file in files
    }
