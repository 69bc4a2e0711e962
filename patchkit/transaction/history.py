"""What stood before patches, found where git still has it: the same in every clone of a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.errors import ConflictError, TreeError
from patchkit.plan.marks import SIGN
from patchkit.tree.checkout import Checkout

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

_DEEPEST = 50
"""More often than that no file is moved between two commits of a patch."""


def checkout_of(package: Path) -> Checkout | None:
    """Return the git checkout that has the package, None where none does or git cannot tell."""
    try:
        checkout = Checkout.around(package)
        return checkout if checkout is not None and checkout.has("__init__.py") else None
    except TreeError:
        return None


def before_patches(tree: CheckoutTree, checkout: Checkout, files: Iterable[str]) -> dict[str, bytes | None]:
    """Return what each of ``files`` was last without a patch's comment: in HEAD, or before the commit that brought one.

    ConflictError, with the command that helps, if git does not have it.
    """
    names = list(files)
    try:
        touching = checkout.touching(SIGN, names) if names else {}
        return {file: _unsigned(tree, checkout, file, touching.get(file, ())) for file in names}
    except TreeError as error:
        raise ConflictError(
            f"git cannot read what was there before the patches: {error} In a clone without all objects, git fetch "
            "--refetch brings them."
        ) from None


def _unsigned(
    tree: CheckoutTree, checkout: Checkout, file: str, touching: Iterable[tuple[str, str]]
) -> bytes | None:
    stands, here = tree.read(file), checkout.at("HEAD", file)
    # Code that stands without its comment is in HEAD as well, and that is not how it was before.
    if not _is_signed(here) and here != stands:
        return here
    moves = 0
    pairs = list(touching)
    while pairs and moves < _DEEPEST:
        commit, parent = pairs.pop(0)
        content = checkout.at(parent, file)
        if content is None and (before := checkout.renamed(parent, commit, file)) is not None:
            file, moves = before, moves + 1
            content = checkout.at(parent, file)
            pairs = checkout.touching(SIGN, [file], parent).get(file, [])
        if not _is_signed(content):
            return content
    advice = "run git fetch --unshallow" if checkout.is_shallow else "put the release's own file in its place"
    raise ConflictError(
        f"{file}: neither a ledger (.patchkit) nor this clone has it from before the patches: {advice}."
    )


def _is_signed(content: bytes | None) -> bool:
    return SIGN.encode() in (content or b"")
