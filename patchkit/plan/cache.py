"""Cache a tree's patch statuses, keyed by the content of every file that they depend on.

Each file is read once, so a status always belongs to the bytes in its key, even if the tree changes meanwhile.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from patchkit import cache
from patchkit.plan.comments import commenting_patches
from patchkit.plan.status import EditStatus, PatchStatus, State, TreeStatus
from patchkit.tree.history import has_commit
from patchkit.tree.sglang import SERVING, serves
from patchkit.tree.tree import TreeAbove

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import Tree

_AREA = "status"
_PACKAGES = ("change", "codemods", "patchset", "plan", "tree")


class CachedStatus(msgspec.Struct, frozen=True):
    """One patch's cached status."""

    patch: str
    state: State
    edits: tuple[EditStatus, ...]
    reason: str

    @classmethod
    def of(cls, status: PatchStatus) -> CachedStatus:
        """Return a status to cache."""
        return cls(status.patch.id, status.state, status.edits, status.reason)

    def status(self, patches: PatchSet) -> PatchStatus:
        """Return the status of one of these patches."""
        return PatchStatus(patches.get(self.patch), self.state, self.edits, self.reason)


class _Entry(msgspec.Struct, frozen=True):
    """The cached statuses of one tree, with their key.

    ``others`` has the digests of the other files that were read, which the key does not cover.
    """

    key: str
    patches: tuple[CachedStatus, ...]
    unknown: tuple[str, ...]
    others: dict[str, str]


@dataclass(frozen=True)
class _Snapshot(TreeAbove):
    """A tree as it was when ``sources`` were read from it; every other file is read once, on first use."""

    sources: Mapping[str, bytes]
    others: dict[str, bytes | None] = field(default_factory=dict)

    def read(self, file: str) -> bytes | None:
        if file in self.sources:
            return self.sources[file]
        if file not in self.others:
            self.others[file] = super().read(file)
        return self.others[file]

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        if (folder, suffix) != (SERVING, ".py"):
            return super().files(folder, suffix)
        return sorted(file for file in self.sources if serves(file) and file.endswith(suffix))


def statuses(tree: Tree, patches: PatchSet) -> tuple[PatchStatus, ...]:
    """Return the result of ``plan.inspect`` for all patches; errors are not cached."""
    return tree_status(tree, patches).patches


def tree_status(tree: Tree, patches: PatchSet) -> TreeStatus:
    """Return all statuses, and the ids of unknown patches that the tree's comments name.

    A cache entry that does not belong to this tree and these patches is ignored.
    """
    sources = _sources(tree, patches)
    name = f"{patches.digest[:16]}-{cache.key(sources, _PACKAGES, ('libcst',))}"
    entry = cache.load(_AREA, name, _Entry)
    if entry is not None and _is_of(entry, name, tree, patches):
        return TreeStatus(tuple(cached.status(patches) for cached in entry.patches), entry.unknown)
    # libcst is slow to import, so it is loaded only on a cache miss.
    from patchkit.plan.build import inspect

    snapshot = _Snapshot(tree, sources)
    statuses_found = inspect(snapshot, tuple(patches))
    cached = tuple(map(CachedStatus.of, statuses_found))
    commenting = frozenset[str]().union(*map(commenting_patches, sources.values()))
    unknown = tuple(sorted(commenting.difference(patches.ids, patches.former)))
    others = {file: _digest(content) for file, content in snapshot.others.items()}
    cache.save(_AREA, name, _Entry(name, cached, unknown, others))
    return TreeStatus(statuses_found, unknown)


def _is_of(entry: _Entry, name: str, tree: Tree, patches: PatchSet) -> bool:
    if entry.key != name or tuple(cached.patch for cached in entry.patches) != patches.ids:
        return False
    return all(_digest(tree.read(file)) == digest for file, digest in entry.others.items())


def _digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()


def _sources(tree: Tree, patches: PatchSet) -> dict[str, bytes]:
    """Return every file that an inspection may read: the serving package, and other files that patches name."""
    named = {file for patch in patches for edit in patch.edits for file in edit.files}
    facts = {file for patch in patches for fact in patch.facts for file in fact.files}
    files = {*tree.files(SERVING), *named, *facts}
    read = {file: content for file in files if (content := tree.read(file)) is not None}
    diffs = (patch for patch in patches if patch.diffs)
    had = sorted(diff.id for diff in diffs if has_commit(tree, diff.upstream_commit, diff.upstream_subject))
    # Statuses depend on the version, on the package's name, which may come from the folder's, and on the history.
    return read | {"": " ".join((tree.version or "", tree.name, *had)).encode()}
