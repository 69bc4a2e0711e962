"""Store the resolutions of conflicts in the repository, or in the user's data folder outside of one.

As with ``git rerere``, all branches and worktrees of a repository share them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import platformdirs

from patchkit.errors import TreeError
from patchkit.plan.resolutions import Resolution
from patchkit.transaction.folder import Folder
from patchkit.tree.git import git
from patchkit.tree.limits import read_whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.tree.tree import CheckoutTree

_FOLDER = "resolutions"
_Place = tuple[Path, tuple[str, ...]]
"""A folder of resolutions: a root, and the names of folders below it, where links are not followed to write."""


class ResolutionStore:
    """The resolutions recorded for a tree, one file per conflict."""

    def __init__(self, tree: CheckoutTree) -> None:
        user: _Place = Path(platformdirs.user_data_dir("patchkit")), (_FOLDER,)
        shared = _common_folder(tree.root)
        self._places = (user,) if shared is None else ((shared, ("patchkit", _FOLDER)), user)
        self._folders = [root.joinpath(*names) for root, names in self._places]

    def get(self, name: str) -> Resolution | None:
        """Return the resolution stored under a name; None if there is none or it is damaged."""
        resolutions = (_read(folder / f"{name}.json") for folder in self._folders)
        return next(filter(None, resolutions), None)

    def put(self, name: str, resolution: Resolution) -> bool:
        """Store a resolution; return False if that fails."""
        return _write(*self._places[0], f"{name}.json", msgspec.json.encode(resolution))

    def __iter__(self) -> Iterator[Resolution]:
        """Yield every resolution, one per name."""
        files = {path.name: path for folder in reversed(self._folders) for path in folder.glob("*.json")}
        yield from (resolution for _, path in sorted(files.items()) if (resolution := _read(path)))


def _common_folder(root: Path) -> Path | None:
    """Return the folder shared by all worktrees of the repository that contains a tree."""
    with suppress(TreeError):  # git is not installed.
        answer = git(root, "rev-parse", "--git-common-dir")
        output = answer.stdout.rstrip(b"\n")
        return root / os.fsdecode(output) if output and not answer.returncode else None
    return None


def _read(path: Path) -> Resolution | None:
    try:
        return msgspec.json.decode(read_whole(path), type=Resolution)
    except (OSError, ValueError, RecursionError):  # msgspec's errors are ValueErrors.
        return None


def _write(root: Path, names: tuple[str, ...], name: str, content: bytes) -> bool:
    temporary = f"{name}.{os.getpid()}.tmp"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with Folder.open(root.resolve()) as top:
            for depth, folder_name in enumerate(names):
                with top.open_path(names[:depth]) as parent:
                    parent.create_folder(folder_name)
            with top.open_path(names) as folder:
                folder.remove(temporary)
                folder.create(temporary, content)
                try:
                    folder.rename(temporary, name)
                finally:
                    folder.remove(temporary)
    except OSError:
        return False
    return True
