"""The ledger: the contents of each file that patchkit changed, before and after the change.

It is state, not a log. It has a record for each state of the tree, such as the branches of its checkout. A record
is a stack of layers; a layer is one or more applies without another change in between. The ledger is stored in
``<package>/.patchkit/``, which ``git status`` does not show; ``docs/formats.md`` describes it.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import msgspec

from patchkit import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


FOLDER = ".patchkit"
FORMAT = 2
PORTED = "port"
"""The digest of a ported change's layer, which no patch set can make again."""
Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Commit = Annotated[str, msgspec.Meta(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")]
_PART = r"(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f]+"
_PATH = rf"{_PART}(?:/{_PART})*\Z"
_FILE = rf"^(?!\.patchkit(?:/|\Z)){_PATH}"
File = Annotated[str, msgspec.Meta(pattern=_FILE)]
"""A file's path in the package, which leads neither up nor into the ledger's folder."""
_OUTSIDE = rf"^(?:\.\./)+{_PATH}"
WrittenFile = Annotated[str, msgspec.Meta(pattern=f"{_FILE}|{_OUTSIDE}")]
"""A file's path from the package, which may lead up to another folder of the checkout."""


def is_file(name: str) -> bool:
    """Return whether a ledger can contain this file name."""
    return _matches(_FILE, name)


def is_outside(name: str) -> bool:
    """Return whether a write can contain this name of a file outside the package."""
    return _matches(_OUTSIDE, name)


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.match(pattern, name) is not None and bool(name.encode())
    except UnicodeEncodeError:
        return False


class AppliedEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An edit that patchkit made."""

    name: str
    file: str
    site: str


class AppliedPatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A patch that patchkit applied, with all that a revert needs if the patch is no longer loaded."""

    id: str
    title: str
    requires: tuple[str, ...]
    edits: tuple[AppliedEdit, ...]
    by_hand: tuple[str, ...] = ()
    """Names of edits that a person made; those that are in ``edits`` too can be reverted."""


class AppliedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a file before (``original``) and after (``applied``) the patches that changed it.

    None if the file does not exist.
    """

    original: Digest | None
    applied: Digest | None
    patches: tuple[str, ...]


class Layer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Patches and the files that they changed; ``digest`` identifies the patch set of the last apply.

    ``folders`` are those that were created for the files.
    """

    patches: tuple[AppliedPatch, ...]
    files: dict[File, AppliedFile]
    digest: str
    patchkit: str
    time: str
    folders: tuple[File, ...] = ()

    def with_files(self, files: dict[str, AppliedFile]) -> Layer:
        """Return the layer with only these files, and the patches that they list."""
        listed = {name for file in files.values() for name in file.patches}
        patches = tuple(
            msgspec.structs.replace(patch, edits=tuple(edit for edit in patch.edits if edit.file in files))
            for patch in self.patches
            if patch.id in listed
        )
        return msgspec.structs.replace(
            self, files=files, patches=patches, folders=_folders_of(self.folders, files)
        )

    @property
    def is_ported(self) -> bool:
        """Whether it is the layer of a ported change, which has a layer of its own."""
        return self.digest == PORTED

    def edits_in(self, file: str) -> frozenset[tuple[str, str]]:
        """Return the edits made in ``file``, as pairs of patch id and edit name."""
        return frozenset((p.id, edit.name) for p in self.patches for edit in p.edits if edit.file == file)


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that patchkit did to one state of a tree and has not reverted, oldest layer first."""

    layers: tuple[Layer, ...] = ()

    @property
    def patches(self) -> dict[str, AppliedPatch]:
        """The applied patches by id, in order of application."""
        return {patch.id: patch for layer in self.layers for patch in layer.patches}

    @property
    def manual_edits(self) -> frozenset[tuple[str, str]]:
        """The edits that a person made, as pairs of patch id and edit name."""
        return frozenset((p.id, name) for layer in self.layers for p in layer.patches for name in p.by_hand)

    @property
    def ported(self) -> frozenset[str]:
        """The ids of the ported changes."""
        return frozenset(patch.id for layer in self.layers if layer.is_ported for patch in layer.patches)

    def of_ports(self, names: frozenset[str]) -> Record:
        """Return a record of only those of the ported changes."""
        ported = (layer for layer in self.layers if layer.is_ported)
        return Record(tuple(layer for layer in ported if names.intersection(p.id for p in layer.patches)))

    @property
    def contents(self) -> frozenset[str]:
        """The digests of all contents that the record refers to."""
        files = [file for layer in self.layers for file in layer.files.values()]
        return _digests(digest for file in files for digest in (file.original, file.applied))

    @property
    def files(self) -> dict[str, AppliedFile]:
        """Every file that patchkit changed, as in the last layer that changed it."""
        return {file: known for layer in self.layers for file, known in layer.files.items()}

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that were created for files."""
        return tuple(dict.fromkeys(folder for layer in self.layers for folder in layer.folders))

    def with_applied(
        self,
        changes: Mapping[str, AppliedFile],
        patches: Sequence[AppliedPatch],
        digest: str,
        folders: Sequence[str] = (),
        others: Mapping[str, Digest | None] | None = None,
    ) -> Record:
        """Return the record after ``changes``, keyed by file, made by ``patches``; ``folders`` were created for them.

        ``others`` are the current contents of the other files of ported changes.

        A file that was not edited since its layer remains in that layer, with its first original. If one of the files
        was edited, it and the files new to the ledger get a layer of their own, and so do all files of a ported
        change. A file in which every edit of a layer was made again has been replaced since, and is removed from that
        layer, and from the layers of ported changes if its content is the one before them; so are ``others`` then.
        """
        before = {**(others or {}), **{file: change.original for file, change in changes.items()}}
        edits = frozenset((patch.id, edit.name) for patch in patches for edit in patch.edits)
        replaced: set[str] = set()
        layers: list[Layer] = []
        for layer in self.layers:
            if layer.is_ported:
                absent = {
                    file
                    for file, known in layer.files.items()
                    if file in before and known.original == before[file]
                }
                replaced |= absent if absent & changes.keys() else set()
                layers.append(
                    layer.with_files(
                        {file: known for file, known in layer.files.items() if file not in replaced}
                    )
                )
            else:
                layers.append(layer.with_files(_remaining(layer, changes, edits)))
        return Record(tuple(layers))._with_applied(changes, patches, digest, folders)

    def _with_applied(
        self,
        changes: Mapping[str, AppliedFile],
        patches: Sequence[AppliedPatch],
        digest: str,
        folders: Sequence[str],
    ) -> Record:
        levels = {file: self._level(file) for file in changes}
        rewritten = {
            file
            for file, level in levels.items()
            if level is not None
            and (
                self.layers[level].files[file].applied != changes[file].original
                or ((digest == PORTED or self.layers[level].is_ported) and changes[file].patches)
            )
        }
        needs_new_layer = not self.layers or digest == PORTED or self.layers[-1].is_ported
        top = len(self.layers) if rewritten or needs_new_layer else len(self.layers) - 1
        layer_of = {
            file: top if level is None or file in rewritten else level for file, level in levels.items()
        }
        layers = [*self.layers, Layer((), {}, "", "", "")][: top + 1]
        for level in set(layer_of.values()):
            applied = {file: changes[file] for file, target in layer_of.items() if target == level}
            layers[level] = _with_changes(layers[level], applied, patches, digest, folders)
        return Record(tuple(layer for layer in layers if layer.files))

    def _level(self, file: str) -> int | None:
        return max((level for level, layer in enumerate(self.layers) if file in layer.files), default=None)


class Ledger(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The records of a tree, one for each of its states; the last one was written last."""

    records: tuple[Record, ...] = ()
    format: Annotated[int, msgspec.Meta(ge=FORMAT, le=FORMAT)] = FORMAT

    @property
    def contents(self) -> frozenset[str]:
        """The digests of all contents that the ledger refers to."""
        return frozenset[str]().union(*(record.contents for record in self.records))

    def with_record(self, old: Record, new: Record) -> Ledger:
        """Return the ledger with ``new`` last, unless empty, in place of ``old`` and of records equal to ``new``."""
        others = (record for record in self.records if record != old and record.files != new.files)
        return Ledger((*others, new) if new.layers else tuple(others))


class Journal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A write in progress: each file's digests before and after it, and the ledger after it.

    ``made`` are the folders that the write creates, ``emptied`` those that it removes if they are empty. ``move``
    is set if the write moves the checkout: the commits from which and to which; ``files`` are then the numbers of those
    that differ between them, in git's order, and ``made`` and ``emptied`` follow from the commits.
    """

    files: dict[WrittenFile, tuple[Digest | None, Digest | None]]
    ledger: Ledger
    made: tuple[WrittenFile, ...] = ()
    emptied: tuple[WrittenFile, ...] = ()
    format: Annotated[int, msgspec.Meta(ge=FORMAT, le=FORMAT)] = FORMAT
    move: tuple[Commit, Commit] | msgspec.UnsetType = msgspec.UNSET

    @property
    def contents(self) -> frozenset[str]:
        """The digests of all contents that the write needs."""
        recorded = self.ledger.records[-1].contents if self.ledger.records else frozenset[str]()
        return recorded.union(_digests(digest for pair in self.files.values() for digest in pair))


def _digests(digests: Iterable[str | None]) -> frozenset[str]:
    return frozenset(digest for digest in digests if digest is not None)


def _remaining(
    layer: Layer, changes: Mapping[str, AppliedFile], edits: frozenset[tuple[str, str]]
) -> dict[str, AppliedFile]:
    """Return the layer's files, without those in which every edit is in ``edits``."""
    replaced = {file for file in changes if layer.edits_in(file) and layer.edits_in(file) <= edits}
    return {file: known for file, known in layer.files.items() if file not in replaced}


def _with_changes(
    layer: Layer,
    changes: Mapping[str, AppliedFile],
    patches: Sequence[AppliedPatch],
    digest: str,
    folders: Sequence[str],
) -> Layer:
    files = dict(layer.files)
    for file, change in changes.items():
        earlier_file = files.get(file, change)
        ids = tuple(dict.fromkeys((*earlier_file.patches, *change.patches)))
        files[file] = AppliedFile(earlier_file.original, change.applied, ids)
    known = {patch.id: patch for patch in layer.patches}
    for patch in patches:
        new_edits = tuple(edit for edit in patch.edits if edit.file in changes)
        if any(patch.id in change.patches for change in changes.values()):
            earlier = known[patch.id].edits if patch.id in known else ()
            edits = tuple(dict.fromkeys((*earlier, *new_edits)))
            made_by_patchkit = {edit.name for edit in new_edits} - set(patch.by_hand)
            earlier_by_hand = known[patch.id].by_hand if patch.id in known else ()
            by_hand = tuple(
                name
                for name in dict.fromkeys((*earlier_by_hand, *patch.by_hand))
                if name not in made_by_patchkit
            )
            known[patch.id] = msgspec.structs.replace(patch, edits=edits, by_hand=by_hand)
    time = datetime.now(timezone.utc).isoformat(timespec="seconds")
    all_folders = tuple(dict.fromkeys((*layer.folders, *_folders_of(folders, changes))))
    patch_set = digest if patches else layer.digest
    return Layer(tuple(known.values()), files, patch_set, __version__, time, all_folders)


def _folders_of(folders: Iterable[str], files: Iterable[str]) -> tuple[str, ...]:
    return tuple(folder for folder in folders if any(file.startswith(f"{folder}/") for file in files))
