"""Find files with uncommitted changes, so that apply does not write over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.tree.checkout import Checkout

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from patchkit.transaction.write import Place

_TRACKED = "__init__.py"
"""A file that git tracks if it tracks the package."""


def uncommitted(package: Path, files: Mapping[str, tuple[Place, bytes]]) -> list[str]:
    """Return the files that differ from HEAD or the index; line ends are ignored.

    Return none if no git checkout tracks the package. Raise TreeError if git fails.
    """
    if not files:
        return []
    checkout = Checkout.around(package)
    if checkout is None:
        return []
    names = {"/".join((*place.folders, place.name)): file for file, (place, _) in files.items()}
    asked = [*names, _TRACKED]
    committed, staged = checkout.committed(asked), checkout.staged(asked)
    if _TRACKED not in committed and _TRACKED not in staged:
        return []
    return sorted(
        file
        for name, file in names.items()
        if name not in committed
        or staged.get(name) != committed[name]
        or not checkout.is_content(committed[name], files[file][1])
    )
