"""Find the files of a tree object that define a top-level name, reading each blob and folder once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchkit.tree.fork import FILE, FOLDER, LINK

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.tree.objects import GitTree

_DEFINED = re.compile(rb"^(?:class|(?:async )?def) (\w+)", re.MULTILINE)


@dataclass
class _Listing:
    """A folder's folders with their ids, and its Python files with the names that they define."""

    folders: list[tuple[str, str]] = field(default_factory=list)
    files: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    linked: bool = False


class Definitions:
    """The names that a repository's blobs define; ``recall`` and ``keep`` read and write a cache."""

    def __init__(
        self,
        recall: Callable[[str], str | None],
        keep: Callable[[str, str], None] = lambda _blob, _names: None,
    ) -> None:
        self._recall, self._keep = recall, keep
        self._names: dict[str, frozenset[str]] = {}
        self._listings: dict[str, _Listing] = {}
        self._homes: dict[tuple[str, str], tuple[str, ...]] = {}

    def homes(self, tree: GitTree, folder: str, name: str) -> tuple[str, ...]:
        """Return the Python files below ``folder`` that define ``name`` at the top level, sorted."""
        entry = tree.repository.at(tree.id, folder)
        if entry is None or entry.kind != FOLDER:
            return ()
        return tuple(sorted(f"{folder}/{file}" for file in self._below(tree, entry.id, folder, name)))

    def _below(self, tree: GitTree, folder_id: str, folder: str, name: str) -> tuple[str, ...]:
        if (folder_id, name) in self._homes:
            return self._homes[folder_id, name]
        listing = self._listing(tree, folder_id, folder)
        names = [child for child, names in listing.files if name in names]
        linked = listing.linked
        for child, child_id in listing.folders:
            below = self._below(tree, child_id, f"{folder}/{child}", name)
            linked = linked or (child_id, name) not in self._homes
            names += (f"{child}/{file}" for file in below)
        if not linked:  # A folder's id does not cover the targets of its links.
            self._homes[folder_id, name] = tuple(names)
        return tuple(names)

    def _listing(self, tree: GitTree, folder_id: str, folder: str) -> _Listing:
        if folder_id in self._listings:
            return self._listings[folder_id]
        listing = _Listing()
        for child, entry in tree.repository.entries(folder_id).items():
            path = f"{folder}/{child}"
            if entry.kind == FOLDER and not child.startswith("."):
                listing.folders.append((child, entry.id))
            elif child.endswith(".py") and entry.kind in (FILE, LINK):
                listing.linked = listing.linked or entry.kind == LINK
                blob = entry.id if entry.kind == FILE else tree.blob(path)
                if blob is not None:
                    listing.files.append((child, self._of(tree, blob, path)))
        if not listing.linked:
            self._listings[folder_id] = listing
        return listing

    def _of(self, tree: GitTree, blob: str, path: str) -> frozenset[str]:
        if blob not in self._names:
            names = self._recall(blob)
            if names is None:
                names = " ".join(sorted({name.decode() for name in _DEFINED.findall(tree.read(path) or b"")}))
                self._keep(blob, names)
            self._names[blob] = frozenset(names.split())
        return self._names[blob]
