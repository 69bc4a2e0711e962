"""A series for ``git am``, made from the commit that is checked out; the repository is only read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit import __version__
from patchkit.errors import TreeError, UsageError
from patchkit.series.message import message
from patchkit.tree.git import git

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.plan.status import Stage
    from patchkit.tree.git import GitTree


def export(tree: GitTree, stages: Sequence[Stage], folder: Path) -> tuple[Path, ...]:
    """Write one file a stage to ``folder`` and return them in order.

    The commits are made in a temporary object store, so that git itself writes the files. UsageError if
    ``folder`` has a series already, TreeError if git does not know who commits.
    """
    if folder.is_dir() and any(folder.glob("*.patch")):
        raise UsageError(f"{folder} holds a series already: remove it or name another folder with -o.")
    if not stages:
        return ()
    path = tree.repository.path
    with tempfile.TemporaryDirectory(prefix="patchkit-") as scratch:
        store = _Scratch(path, Path(scratch))
        base = parent = store.run("rev-parse", f"{tree.ref}^{{commit}}")
        store.run("read-tree", base)
        for stage in stages:
            for change in stage.changes:
                name = f"{tree.place}/{change.file}"
                if change.after is None:
                    store.run("update-index", "--force-remove", "--", name)
                    continue
                content = Path(scratch, "content")
                content.write_bytes(change.after)
                blob = store.run("hash-object", "-w", "--no-filters", "--", str(content))
                mode = store.run("ls-files", "--stage", "--", name)[:6] or "100644"
                store.run("update-index", "--add", "--cacheinfo", f"{mode},{blob},{name}")
            written = store.run("write-tree")
            parent = store.run("commit-tree", written, "-p", parent, "-m", message(stage.patch))
        prefixes = ("--src-prefix=a/", "--dst-prefix=b/", "--full-index", "--binary", "--no-renames")
        signature = f"--signature=patchkit {__version__}"
        target = str(folder.absolute())
        said = store.run("format-patch", *prefixes, signature, "-o", target, f"{base}..{parent}")
    return tuple(map(Path, said.splitlines()))


class _Scratch:
    """Git on a repository, with an index and new objects of its own."""

    def __init__(self, path: Path, scratch: Path) -> None:
        self._path = path
        objects = git(path, "rev-parse", "--path-format=absolute", "--git-path", "objects").stdout
        (scratch / "objects").mkdir()
        self._settings = {
            "GIT_INDEX_FILE": str(scratch / "index"),
            "GIT_OBJECT_DIRECTORY": str(scratch / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.fsdecode(objects).strip(),
        }

    def run(self, *arguments: str) -> str:
        done = git(self._path, *arguments, settings=self._settings, named=True)
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise TreeError(
                f"git {arguments[0]} failed in {self._path} ({said[0] if said else 'it did not say why'}): "
                "mend that and try again."
            )
        return os.fsdecode(done.stdout).strip()
