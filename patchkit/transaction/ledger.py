"""The ledger says, for every file that patchkit changed, which bytes stood there before and after it.

It is state, not a log: a stack of layers, each one or more applies with no change by anyone else in between.
It lives in ``<package>/.patchkit/``, which no ``git status`` shows: ``ledger.json``, and the contents under
their SHA-256 in ``objects/``.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import msgspec

from patchkit import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


FOLDER = ".patchkit"
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class AppliedEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An edit that patchkit made."""

    name: str
    file: str
    site: str


class AppliedPatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A patch that patchkit applied, with what reverting it has to know even where its folder is gone."""

    id: str
    title: str
    requires: tuple[str, ...]
    hardens: tuple[str, ...]
    edits: tuple[AppliedEdit, ...]


class AppliedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file as it stood before (``original``) and after (``applied``) the patches that changed it."""

    original: Digest
    applied: Digest
    patches: tuple[str, ...]


class Layer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Patches and the files that they changed; ``digest`` names the patch set of the last apply."""

    patches: tuple[AppliedPatch, ...]
    files: dict[str, AppliedFile]
    digest: str
    patchkit: str
    time: str

    def with_files(self, files: dict[str, AppliedFile]) -> Layer:
        """Return the layer with these files alone and the patches that they list."""
        listed = {name for file in files.values() for name in file.patches}
        patches = tuple(
            msgspec.structs.replace(patch, edits=tuple(edit for edit in patch.edits if edit.file in files))
            for patch in self.patches
            if patch.id in listed
        )
        return msgspec.structs.replace(self, files=files, patches=patches)

    def made(self, file: str) -> frozenset[tuple[str, str]]:
        """Return the edits made in ``file``, each as its patch's id and its name."""
        return frozenset((p.id, edit.name) for p in self.patches for edit in p.edits if edit.file == file)


class Ledger(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that patchkit did to a tree and has not taken back, oldest layer first."""

    layers: tuple[Layer, ...] = ()
    format: Annotated[int, msgspec.Meta(ge=1, le=1)] = 1

    @property
    def patches(self) -> dict[str, AppliedPatch]:
        """The applied patches by id, in the order in which they came."""
        return {patch.id: patch for layer in self.layers for patch in layer.patches}

    @property
    def contents(self) -> frozenset[str]:
        """The digests of every content that the ledger refers to."""
        files = [file for layer in self.layers for file in layer.files.values()]
        return frozenset(digest for file in files for digest in (file.original, file.applied))

    def applied(self, file: str) -> str | None:
        """Return the digest of ``file`` as patchkit last left it, or None if it never changed it."""
        level = self._level(file)
        return None if level is None else self.layers[level].files[file].applied

    def with_applied(
        self, changes: Mapping[str, AppliedFile], patches: Sequence[AppliedPatch], digest: str
    ) -> Ledger:
        """Return the ledger after ``changes``, keyed by file, made by ``patches``.

        A file that stands as its layer left it stays in that layer, with its first original. If someone
        changed one of the files since, it and the files new to the ledger get a layer of their own. A file in
        which every edit of a layer had to be made again was replaced since: that layer forgets it.
        """
        made = frozenset((patch.id, edit.name) for patch in patches for edit in patch.edits)
        replaced = Ledger(tuple(layer.with_files(_remaining(layer, changes, made)) for layer in self.layers))
        return replaced._with_applied(changes, patches, digest)

    def _with_applied(
        self, changes: Mapping[str, AppliedFile], patches: Sequence[AppliedPatch], digest: str
    ) -> Ledger:
        levels = {file: self._level(file) for file in changes}
        rewritten = {
            file
            for file, level in levels.items()
            if level is not None and self.layers[level].files[file].applied != changes[file].original
        }
        top = len(self.layers) if rewritten or not self.layers else len(self.layers) - 1
        homes = {file: top if level is None or file in rewritten else level for file, level in levels.items()}
        layers = [*self.layers, Layer((), {}, "", "", "")][: top + 1]
        for level in set(homes.values()):
            here = {file: changes[file] for file, home in homes.items() if home == level}
            layers[level] = _joined(layers[level], here, patches, digest)
        return Ledger(tuple(layer for layer in layers if layer.files))

    def _level(self, file: str) -> int | None:
        return max((level for level, layer in enumerate(self.layers) if file in layer.files), default=None)


class Journal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A write under way: each file's digests before and after it, and the ledger after it."""

    files: dict[str, tuple[Digest, Digest]]
    ledger: Ledger

    @property
    def contents(self) -> frozenset[str]:
        """The digests of every content that finishing the write takes."""
        return self.ledger.contents.union(*self.files.values())


def _remaining(
    layer: Layer, changes: Mapping[str, AppliedFile], made: frozenset[tuple[str, str]]
) -> dict[str, AppliedFile]:
    """Return the layer's files without those in which every edit is among ``made``."""
    again = {file for file in changes if layer.made(file) and layer.made(file) <= made}
    return {file: known for file, known in layer.files.items() if file not in again}


def _joined(
    layer: Layer, changes: Mapping[str, AppliedFile], patches: Sequence[AppliedPatch], digest: str
) -> Layer:
    files = dict(layer.files)
    for file, change in changes.items():
        first = files.get(file, change)
        ids = tuple(dict.fromkeys((*first.patches, *change.patches)))
        files[file] = AppliedFile(first.original, change.applied, ids)
    known = {patch.id: patch for patch in layer.patches}
    for patch in patches:
        made = tuple(edit for edit in patch.edits if edit.file in changes)
        if any(patch.id in change.patches for change in changes.values()):
            earlier = known[patch.id].edits if patch.id in known else ()
            edits = tuple(dict.fromkeys((*earlier, *made)))
            known[patch.id] = msgspec.structs.replace(patch, edits=edits)
    time = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Layer(tuple(known.values()), files, digest, __version__, time)
