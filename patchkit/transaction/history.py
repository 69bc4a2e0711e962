"""Find the contents of files from before the patches in git's history, which is the same in every clone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.errors import ConflictError, TreeError
from patchkit.plan.comments import COMMENT_PREFIX
from patchkit.tree.checkout import Checkout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

_MAX_RENAMES = 50
"""The most renames of one file that are followed."""
_PREFETCHED = 16
"""The most contents of one file in history that are read before they are needed."""


def checkout_of(package: Path) -> Checkout | None:
    """Return the git checkout that tracks the package, or None if there is none. Raise TreeError if git fails."""
    checkout = Checkout.around(package)
    return checkout if checkout is not None and checkout.has("__init__.py") else None


def before_patches(tree: CheckoutTree, checkout: Checkout, files: Iterable[str]) -> dict[str, bytes | None]:
    """Return the last content of each file without a patch's comment: in HEAD, or before the commit that added one.

    Raise ConflictError if git does not have it.
    """
    names = list(files)
    if not names:
        return {}
    try:
        touching = checkout.touching(COMMENT_PREFIX, names)
        places = [(parent, file) for file in names for _, parent in touching.get(file, ())[:_PREFETCHED]]
        at = checkout.reader([*(("HEAD", file) for file in names), *places])
        return {file: _before_patches(tree, checkout, at, file, touching.get(file, ())) for file in names}
    except TreeError as error:
        raise ConflictError(
            f"git cannot read the files from before the patches: {error}",
            advice="in a partial clone, run git fetch --refetch",
        ) from None


def _before_patches(
    tree: CheckoutTree,
    checkout: Checkout,
    at: Callable[[str, str], bytes | None],
    file: str,
    touching: Iterable[tuple[str, str]],
) -> bytes | None:
    current, committed = tree.read(file), at("HEAD", file)
    # A patch whose comments were removed and committed is in HEAD, which is then not the original.
    if not _has_patch_comment(committed) and committed != current:
        return committed
    renames = 0
    pairs = list(touching)
    while pairs and renames < _MAX_RENAMES:
        commit, parent = pairs.pop(0)
        content = at(parent, file)
        if content is None and (old_name := checkout.renamed(parent, commit, file)) is not None:
            file, renames = old_name, renames + 1
            content = at(parent, file)
            pairs = checkout.touching(COMMENT_PREFIX, [file], parent).get(file, [])
        if not _has_patch_comment(content):
            return content
    raise ConflictError(
        "neither a ledger (.patchkit) nor this clone has the file from before the patches",
        where=file,
        advice="run git fetch --unshallow" if checkout.is_shallow else "restore the file from the release",
    )


def _has_patch_comment(content: bytes | None) -> bool:
    return COMMENT_PREFIX.encode() in (content or b"")
