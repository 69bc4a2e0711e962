"""What stood before patches that no ledger records, found where git still has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.errors import ConflictError, TreeError
from patchkit.plan.marks import SIGN
from patchkit.tree.checkout import Checkout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.tree.tree import CheckoutTree


def signed(tree: CheckoutTree) -> list[str]:
    """Return the files with a comment that a patch left."""
    return [file for file in tree.files("") if SIGN.encode() in (tree.read(file) or b"")]


def before_patches(tree: CheckoutTree, files: Sequence[str]) -> dict[str, bytes | None]:
    """Return what each of ``files`` was before the commit that first signed it, as it is in HEAD if none did.

    ConflictError, with the command that does take the patches back, if git does not have it.
    """
    try:
        checkout = Checkout.around(tree.package)
    except TreeError:
        checkout = None
    if checkout is None or not checkout.has("__init__.py"):
        again = f"sglang=={tree.version}" if tree.version else "the release that it was"
        raise ConflictError(
            f"the patches in {tree.package} are in no ledger (.patchkit) and no git history: install the "
            f"package again (pip install --force-reinstall --no-deps {again}) or put its files back from a copy."
        )
    commits = checkout.touching(SIGN, files)
    return {file: _unsigned(checkout, file, ["HEAD", *commits.get(file, [])]) for file in files}


def _unsigned(checkout: Checkout, file: str, commits: Sequence[str]) -> bytes | None:
    for commit in commits:
        before = commit if commit == "HEAD" else f"{commit}^"
        try:
            content = checkout.at(before, file)
        except TreeError:
            break
        if SIGN.encode() not in (content or b""):
            return content
    advice = "run git fetch --unshallow" if checkout.is_shallow else "put the release's own file in its place"
    raise ConflictError(
        f"{file}: neither a ledger (.patchkit) nor this clone has it from before the patches: {advice}."
    )
