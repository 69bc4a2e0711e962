"""The ledger says, for every file that patchkit changed, which bytes stood there before and after it.

It is state, not a log: a stack of layers, each one or more applies with no change by anyone else in between.
It lives in ``<package>/.patchkit/``, which no ``git status`` shows: ``ledger.json``, and the contents under
their SHA-256 in ``objects/``.
"""

from __future__ import annotations

import hashlib
import shutil
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

from patchkit import __version__, durable
from patchkit.errors import TreeError
from patchkit.tree import reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

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
        replaced = Ledger(tuple(layer.with_files(_standing(layer, changes, made)) for layer in self.layers))
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


_Kind = TypeVar("_Kind", Ledger, Journal)


class Store:
    """The ``.patchkit`` folder of a package: ledger, journal and contents, each whole or not there."""

    def __init__(self, package: Path) -> None:
        self.folder = package / FOLDER
        self.lock = self.folder / "lock"
        self._ledger = self.folder / "ledger.json"
        self._journal = self.folder / "journal.json"
        self._objects = self.folder / "objects"

    def create(self) -> None:
        """Make the folder, hidden from git."""
        self._objects.mkdir(parents=True, exist_ok=True)
        ignore = self.folder / ".gitignore"
        if not ignore.exists():
            durable.replace(ignore, b"*\n")

    def tidy(self) -> None:
        """Drop what nothing refers to, all if the ledger is empty; nothing while a write is pending."""
        if self.pending:
            return
        with suppress(OSError, TreeError):
            ledger = self.read()
            if not ledger.layers:
                self.discard()
                return
            for path in (self._ledger, self._journal):
                durable.unstage(path)
            for path in self._objects.iterdir():
                if path.name not in ledger.contents:
                    path.unlink()

    def discard(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def read(self) -> Ledger:
        """Return the ledger; empty if there is none, TreeError if it is damaged."""
        return self._decode(self._ledger, Ledger) or Ledger()

    def stage(self, ledger: Ledger) -> None:
        """Write the next ledger to disk without putting it in place."""
        durable.stage(self._ledger, _encode(ledger))

    def publish(self) -> None:
        """Put the staged ledger in place."""
        durable.publish(self._ledger)

    def unstage(self) -> None:
        """Drop a ledger that was staged and not put in place."""
        durable.unstage(self._ledger)

    @property
    def pending(self) -> bool:
        """Whether a write began and did not end."""
        return self._journal.exists()

    def journal(self) -> Journal | None:
        """Return the write under way, or None; TreeError if the journal is damaged."""
        return self._decode(self._journal, Journal)

    def begin(self, journal: Journal) -> None:
        """Note that a write is under way."""
        durable.replace(self._journal, _encode(journal))

    def end(self) -> None:
        """Note that no write is under way."""
        # Not flushed: a journal that a power cut brings back finds every file as it is to be.
        self._journal.unlink(missing_ok=True)

    def path(self, digest: str) -> Path:
        """Return where the content with this digest is kept."""
        return self._objects / digest

    def put(self, content: bytes) -> str:
        """Keep ``content`` and return its digest."""
        digest = digest_of(content)
        if not self.holds(digest):
            durable.replace(self.path(digest), content)
        return digest

    def get(self, digest: str) -> bytes:
        """Return the content with this digest; TreeError if it is missing or damaged."""
        with reading(self.path(digest)):
            content = self.path(digest).read_bytes()
        if digest_of(content) != digest:
            raise self._damaged(self.path(digest))
        return content

    def holds(self, digest: str) -> bool:
        """Tell whether the content with this digest is here and undamaged."""
        try:
            return digest_of(self.path(digest).read_bytes()) == digest
        except FileNotFoundError:
            return False

    def _decode(self, path: Path, kind: type[_Kind]) -> _Kind | None:
        with reading(path), suppress(FileNotFoundError, NotADirectoryError):
            try:
                return msgspec.json.decode(path.read_bytes(), type=kind)
            except msgspec.DecodeError:
                raise self._damaged(path) from None
        return None

    def _damaged(self, path: Path) -> TreeError:
        return TreeError(
            f"{path} is damaged: put the tree's files back with git or from a copy, and remove {self.folder}."
        )


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of ``content`` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _encode(value: Ledger | Journal) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _standing(
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
