"""What git does not keep is not patched over: a target that differs from HEAD is named, or apply refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.tree.checkout import Checkout

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from patchkit.transaction.write import Place


def uncommitted(package: Path, files: Mapping[str, tuple[Place, bytes]]) -> list[str]:
    """Return the files whose bytes are not those of HEAD, or were staged otherwise; line ends do not count.

    None where the package is in no git checkout, or in one that does not have it. TreeError if there is one
    and git cannot answer.
    """
    if not files:
        return []
    checkout = Checkout.around(package)
    if checkout is None or not checkout.has("__init__.py"):
        return []
    names = {"/".join((*place.folders, place.name)): file for file, (place, _) in files.items()}
    committed, staged = checkout.committed(names), checkout.staged(names)
    return sorted(
        file
        for name, file in names.items()
        if name not in committed
        or staged.get(name) != committed[name]
        or not checkout.is_content(committed[name], files[file][1])
    )
