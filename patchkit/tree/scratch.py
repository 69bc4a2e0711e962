"""A temporary folder for a command's intermediate files, and a copy of a tree in it."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.tree.fork import OWN_FOLDER
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.tree.tree import CheckoutTree


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a temporary folder and remove it afterwards. Raise TreeError if none can be made."""
    try:
        made = tempfile.TemporaryDirectory(prefix="patchkit-")
    except OSError as error:  # Python reports a full disk as a missing temporary folder.
        raise TreeError(
            f"no temporary folder can be made ({error.strerror}), and nothing was written",
            advice="free some space, or set TMPDIR to a folder that has some",
        ) from error
    with made as folder:
        yield Path(folder)


def copied(tree: CheckoutTree, folder: Path, *, with_own: bool = False) -> CheckoutTree:
    """Copy the package to ``folder`` without caches and ``.git``, and unless ``with_own`` without patchkit's own.

    Raise TreeError if it cannot be read.
    """

    def copy(source: str, target: str) -> None:
        Path(target).write_bytes(tree.read(Path(source).relative_to(tree.package).as_posix()) or b"")
        shutil.copymode(source, target)

    ignored = shutil.ignore_patterns("__pycache__", ".git", *(() if with_own else (OWN_FOLDER,)))
    try:
        shutil.copytree(
            tree.package, folder / tree.package.name, ignore=ignored, symlinks=True, copy_function=copy
        )
    except OSError as error:
        reason = error.args[0][0][2] if isinstance(error, shutil.Error) else error
        raise TreeError(
            f"{tree.package} cannot be copied ({reason})", advice="fix that and try again"
        ) from None
    return open_tree(folder / tree.package.name)
