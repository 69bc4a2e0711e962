"""The record of what patchkit changed in a tree: ``patchkit.lock``, a folder that is committed with the tree.

It says whose an edit is and where its original lies, and never that something is applied: the code says that. It has
one file for each patch or port, so that git merges, picks and reverts one without the others. A file lists what was
written for its patch, each with git's ids of the content before and after. In memory the record is a stack of layers; a
layer is one or more writes without another change in between.
"""

from __future__ import annotations

import enum
import hashlib
import json
import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from patchkit import __version__
from patchkit.errors import TreeError
from patchkit.plan.status import IN_PLACE, State, missing_reason
from patchkit.tree import toml
from patchkit.tree.fork import OWN_FOLDER, RECORD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from patchkit.plan.status import EditStatus, PatchStatus
    from patchkit.tree.tree import Tree

FORMAT = 1
Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{40}\Z")]
_PART = r"(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f]+"
_PATH = rf"{_PART}(?:/{_PART})*\Z"
FILE_PATTERN = rf"^(?!{re.escape(OWN_FOLDER)}(?:/|\Z)|{re.escape(RECORD)}(?:/|\Z)){_PATH}"
RECORD_PATTERN = rf"^(?:{re.escape(OWN_FOLDER)}/)?{re.escape(RECORD)}(?:/{_PART})?\Z"
OUTSIDE_PATTERN = rf"^(?:\.\./)+{_PATH}"
File = Annotated[str, msgspec.Meta(pattern=FILE_PATTERN)]
"""A file's path in the package, which leads neither up nor into patchkit's own folder."""
_HEADER = """\
# What patchkit changed here for one patch, with git's ids of the files before and after: commit this file with them.
"""
_PLAIN = re.compile(r"[a-z0-9._-]")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|\Z)|\.")
"""What starts a name that Windows does not take for a file, or that is hidden."""
_LONGEST = 120
_MARKER = re.compile(rb"^(?:<{7} |={7}$|>{7} )", re.MULTILINE)


def is_file(name: str) -> bool:
    """Return whether a record can contain this file name."""
    return _matches(FILE_PATTERN, name)


def is_record_file(name: str) -> bool:
    """Return whether this is the name of a file of the record in the package."""
    return _matches(RECORD_PATTERN, name)


def is_outside(name: str) -> bool:
    """Return whether a write can contain this name of a file outside the package."""
    return _matches(OUTSIDE_PATTERN, name)


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.match(pattern, name) is not None and bool(name.encode())
    except UnicodeEncodeError:
        return False


class How(str, enum.Enum):
    """How an edit came into a file.

    A person made it in place of conflict markers (``by-hand``), declared it to be in place (``accepted``), or made it
    where its original is not known (``found``).
    """

    MADE = "made"
    BY_HAND = "by-hand"
    ACCEPTED = "accepted"
    FOUND = "found"


class AppliedEdit(msgspec.Struct, frozen=True):
    """An edit in a file, and how it came there."""

    name: str
    file: str
    how: How = How.MADE


class AppliedPatch(msgspec.Struct, frozen=True):
    """A patch that patchkit applied, with all that a revert needs if the patch is no longer loaded.

    ``form`` is the digest of the patch's text, and ``patchkit`` the version that applied it.
    """

    id: str
    requires: tuple[str, ...]
    edits: tuple[AppliedEdit, ...]
    form: str = ""
    patchkit: str = __version__

    @property
    def by_hand(self) -> frozenset[str]:
        """The names of the edits that a person made."""
        return frozenset(edit.name for edit in self.edits if edit.how is not How.MADE)

    @property
    def revertible(self) -> tuple[AppliedEdit, ...]:
        """The edits whose original is known."""
        return tuple(edit for edit in self.edits if edit.how is not How.FOUND)


class AppliedFile(msgspec.Struct, frozen=True):
    """The content of a file before (``original``) and after (``applied``) the patches that changed it.

    None if the file does not exist.
    """

    original: str | None
    applied: str | None
    patches: tuple[str, ...]


class Layer(msgspec.Struct, frozen=True):
    """Patches and the files that they changed, or one ported change, which no patch can make again.

    ``number`` is that of its writes in the record's files, which it keeps when a layer below it goes.
    """

    patches: tuple[AppliedPatch, ...]
    files: dict[str, AppliedFile]
    is_ported: bool = False
    number: int = 0

    def with_files(self, files: dict[str, AppliedFile]) -> Layer:
        """Return the layer with only these files, and the patches that they list."""
        listed = {name for file in files.values() for name in file.patches}
        patches = tuple(
            msgspec.structs.replace(patch, edits=tuple(e for e in patch.edits if _is_of(e, files)))
            for patch in self.patches
            if patch.id in listed
        )
        return msgspec.structs.replace(self, files=files, patches=patches)

    def edits_in(self, file: str) -> frozenset[tuple[str, str]]:
        """Return the edits made in ``file``, as pairs of patch id and edit name."""
        return frozenset(
            (p.id, edit.name) for p in self.patches for edit in p.revertible if edit.file == file
        )


class _Write(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One write of a file for a patch: git's ids of the content before and after it, None if it did not exist."""

    file: File
    before: Digest | None = None
    after: Digest | None = None
    layer: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0
    edits: dict[str, How] = {}


class _RecordFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was written for one patch or port: the content of its file."""

    format: int
    id: str
    kind: Literal["patch", "port"]
    form: str = ""
    patchkit: str = ""
    requires: tuple[str, ...] = ()
    write: tuple[_Write, ...] = ()


class Record(msgspec.Struct, frozen=True):
    """Everything that patchkit did to a tree and has not reverted, oldest layer first.

    ``writes`` are the single writes of a file in a layer, in order. ``forked`` are the files whose writes have none,
    since two branches wrote them from the same content, or git took out one of them.
    """

    layers: tuple[Layer, ...] = ()
    writes: frozenset[tuple[str, tuple[AppliedFile, ...]]] = frozenset()
    forked: frozenset[str] = frozenset()

    @property
    def patches(self) -> dict[str, AppliedPatch]:
        """The applied patches by id, in order of application."""
        return {patch.id: patch for layer in self.layers for patch in layer.patches}

    @property
    def manual_edits(self) -> frozenset[tuple[str, str]]:
        """The edits that a person made, as pairs of patch id and edit name."""
        return frozenset(self.manual_files)

    @property
    def manual_files(self) -> dict[tuple[str, str], str]:
        """The file of each edit that a person made."""
        return {(p.id, e.name): e.file for p, e in self._pairs if e.how is not How.MADE}

    @property
    def edits(self) -> frozenset[tuple[str, str]]:
        """The edits that patchkit or a person made, as pairs of patch id and edit name."""
        return frozenset((patch.id, edit.name) for patch, edit in self._pairs)

    @property
    def _pairs(self) -> Iterator[tuple[AppliedPatch, AppliedEdit]]:
        return ((patch, edit) for layer in self.layers for patch in layer.patches for edit in patch.edits)

    @property
    def found_files(self) -> frozenset[str]:
        """The files in which a person had made an edit before the record began, so that it lacks the original."""
        return frozenset(edit.file for _, edit in self._pairs if edit.how is How.FOUND)

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
        digests = (digest for file in files for digest in (file.original, file.applied))
        return frozenset(digest for digest in digests if digest is not None)

    @property
    def files(self) -> dict[str, AppliedFile]:
        """Every file that patchkit changed, as in the last layer that changed it."""
        return {file: change for layer in self.layers for file, change in layer.files.items()}

    def with_applied(
        self,
        changes: Mapping[str, AppliedFile],
        patches: Sequence[AppliedPatch],
        *,
        ported: bool = False,
        others: Mapping[str, str | None] | None = None,
    ) -> Record:
        """Return the record after ``changes``, keyed by file, made by ``patches``.

        ``others`` are the current contents of the other files of ported changes.

        A file that was not edited since its layer remains in that layer, with its first original. If one of the files
        was edited, it and the files new to the record get a layer of their own, and so do all files of a ported
        change. A file in which every edit of a layer was made again has been replaced since, and is removed from that
        layer, and from the layers of ported changes if its content is the one before them; so are ``others`` then.
        """
        before = {**(others or {}), **{file: change.original for file, change in changes.items()}}
        edits = frozenset((patch.id, edit.name) for patch in patches for edit in patch.revertible)
        replaced: set[str] = set()
        layers: list[Layer] = []
        for layer in self.layers:
            if layer.is_ported:
                absent = {
                    file
                    for file, change in layer.files.items()
                    if file in before and change.original == before[file]
                }
                replaced |= absent if absent & changes.keys() else set()
                layers.append(
                    layer.with_files(
                        {file: change for file, change in layer.files.items() if file not in replaced}
                    )
                )
            else:
                layers.append(layer.with_files(_remaining(layer, changes, edits)))
        return self._with(_applied(layers, changes, patches, ported=ported))

    def renewed(self, changes: Mapping[str, AppliedFile], patch: AppliedPatch) -> Record:
        """Return the record after one patch was written anew, with these ``changes`` in place of its former ones."""
        layers = (
            layer.with_files(
                {file: change for file, change in layer.files.items() if change.patches != (patch.id,)}
            )
            for layer in self.layers
        )
        return self._with([*layers]).with_applied(changes, [patch])

    def _with(self, layers: Sequence[Layer]) -> Record:
        """Return a record of ``layers`` that keeps the single writes of this one as far as they still hold."""
        return Record(tuple(layer for layer in layers if layer.files), self.writes, self.forked)

    def with_patches_of(self, other: Record, names: Iterable[str]) -> Record:
        """Return the record with these patches as another record has them."""
        kept = set(map(file_of, names))
        files = files_of(self) | {file: text for file, text in files_of(other).items() if file in kept}
        return parsed(tuple(sorted(files.items()))) if kept else self

    def replaced(self, other: Record) -> Record:
        """Return ``other``, which takes the place of this record, with the single writes of this one."""
        return Record(other.layers, self.writes | other.writes, self.forked)


def _applied(
    layers: Sequence[Layer],
    changes: Mapping[str, AppliedFile],
    patches: Sequence[AppliedPatch],
    *,
    ported: bool,
) -> list[Layer]:
    def level_of(file: str) -> int | None:
        return max((level for level, layer in enumerate(layers) if file in layer.files), default=None)

    levels = {file: level_of(file) for file in changes}
    rewritten = {
        file
        for file, level in levels.items()
        if level is not None
        and (
            layers[level].files[file].applied != changes[file].original
            or ((ported or layers[level].is_ported) and changes[file].patches)
        )
    }
    needs_new_layer = not layers or ported or layers[-1].is_ported
    top = len(layers) if rewritten or needs_new_layer else len(layers) - 1
    layer_of = {file: top if level is None or file in rewritten else level for file, level in levels.items()}
    number = layers[-1].number + 1 if layers else 0
    result = [*layers, Layer((), {}, is_ported=ported, number=number)][: top + 1]
    for level in set(layer_of.values()):
        applied = {file: changes[file] for file, target in layer_of.items() if target == level}
        result[level] = _with_changes(result[level], applied, patches)
    return result


def _remaining(
    layer: Layer, changes: Mapping[str, AppliedFile], edits: frozenset[tuple[str, str]]
) -> dict[str, AppliedFile]:
    """Return the layer's files, without those in which every edit is in ``edits``."""
    replaced = {file for file in changes if layer.edits_in(file) and layer.edits_in(file) <= edits}
    return {file: change for file, change in layer.files.items() if file not in replaced}


def _with_changes(layer: Layer, changes: Mapping[str, AppliedFile], patches: Sequence[AppliedPatch]) -> Layer:
    files = dict(layer.files)
    for file, change in changes.items():
        earlier_file = files.get(file, change)
        ids = tuple(dict.fromkeys((*earlier_file.patches, *change.patches)))
        files[file] = AppliedFile(earlier_file.original, change.applied, ids)
    by_id = {patch.id: patch for patch in layer.patches}
    for patch in patches:
        if any(patch.id in change.patches for change in changes.values()):
            earlier = by_id[patch.id].edits if patch.id in by_id else ()
            made = {(edit.name, edit.file): edit for edit in earlier}
            made |= {(edit.name, edit.file): edit for edit in patch.edits if _is_of(edit, changes)}
            by_id[patch.id] = msgspec.structs.replace(patch, edits=tuple(made.values()))
    return msgspec.structs.replace(layer, patches=tuple(by_id.values()), files=files)


def _is_of(edit: AppliedEdit, files: Mapping[str, object]) -> bool:
    """Return whether an edit is of these files; one that a person made can be in another."""
    return edit.file in files or edit.how is How.FOUND


def attributed(statuses: Iterable[PatchStatus], record: Record) -> tuple[PatchStatus, ...]:
    """Return the statuses with the edits in place that are in the record as patchkit's, and the others as upstream's.

    Of a patch that is not in the record nothing changes.
    """
    edits = record.edits
    recorded = {name for name, _ in edits} - record.ported
    return tuple(_attributed(status, edits) if status.patch.id in recorded else status for status in statuses)


def _attributed(status: PatchStatus, recorded: frozenset[tuple[str, str]]) -> PatchStatus:
    def whose(edit: EditStatus) -> State:
        if (status.patch.id, edit.name) in recorded or edit.calls_runtime:
            return State.APPLIED
        return State.UPSTREAM

    edits = tuple(
        replace(edit, state=whose(edit)) if edit.state in IN_PLACE else edit for edit in status.edits
    )
    is_ours = any(edit.state is State.APPLIED for edit in edits)
    if status.state in IN_PLACE and is_ours:
        return replace(status, state=State.APPLIED, edits=edits)
    if status.state is State.PARTIAL and not status.patch.parts:
        return replace(status, edits=edits, reason=missing_reason(edits))
    return replace(status, edits=edits)


# ---- the files -----------------------------------------------------------------------------------------------------


def files_of(record: Record) -> dict[str, bytes]:
    """Return the bytes of the record's files by name, none for an empty record."""
    blocks: dict[str, list[_Write]] = {}
    heads: dict[str, tuple[AppliedPatch, bool]] = {}
    for number, layer in _numbered(record.layers):
        for file, change in sorted(layer.files.items()):
            # A patch's edits are in its first write.
            edits = {p.id: {e.name: e.how for e in p.edits if e.file == file} for p in layer.patches}
            for pair in _writes(record, file, change):
                for name in pair.patches:
                    write = _Write(file, pair.original, pair.applied, number, edits.pop(name, {}))
                    blocks.setdefault(name, []).append(write)
        heads |= {patch.id: (patch, layer.is_ported) for patch in layer.patches}
    files: dict[str, bytes] = {}
    for name in sorted(blocks):
        patch, is_ported = heads[name]
        lines = [_HEADER, f"format = {FORMAT}\n", f"id = {_quoted(name)}\n"]
        lines.append(f'kind = "{"port" if is_ported else "patch"}"\n')
        texts = ("form", patch.form), ("patchkit", patch.patchkit)
        lines += [f"{key} = {_quoted(text)}\n" for key, text in texts if text]
        lines += [f"requires = [{', '.join(map(_quoted, patch.requires))}]\n"] if patch.requires else []
        lines += [line for write in blocks[name] for line in _lines(write)]
        files[file_of(name)] = "".join(lines).encode()
    return files


def _numbered(layers: Iterable[Layer]) -> Iterator[tuple[int, Layer]]:
    """Yield each layer with its number, another one only if as a file's it would come before the last layer."""
    last = (-1, "")
    for layer in layers:
        names = sorted(patch.id for patch in layer.patches) if layer.is_ported else [""]
        number = layer.number if (layer.number, names[0]) > last else last[0] + 1
        last = (number, names[-1])
        yield number, layer


def file_of(name: str) -> str:
    """Return the name of the file for a patch or port: its id, quoted where a system does not take it for a name.

    Two ids never have the same one, also where case does not count.
    """
    quoted = "".join(
        character if _PLAIN.match(character) else "".join(f"%{byte:02x}" for byte in character.encode())
        for character in name
    )
    if _RESERVED.match(quoted) or not quoted:
        quoted = "".join(f"%{byte:02x}" for byte in quoted[:1].encode()) + quoted[1:] or "%"
    if len(quoted) > _LONGEST:
        quoted = f"%-{hashlib.sha256(name.encode()).hexdigest()}"
    return f"{quoted}.toml"


def _lines(write: _Write) -> Iterator[str]:
    yield f"\n[[write]]\nfile = {_quoted(write.file)}\n"
    if write.before is not None:
        yield f'before = "{write.before}"\n'
    if write.after is not None:
        yield f'after = "{write.after}"\n'
    if write.layer:
        yield f"layer = {write.layer}\n"
    for name, how in sorted(write.edits.items()):
        yield f'edits.{_quoted(name)} = "{how.value}"\n'


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _writes(record: Record, file: str, change: AppliedFile) -> tuple[AppliedFile, ...]:
    """Return the single writes that a layer's file is the result of, so that a write changes no file but its own."""
    for name, pairs in record.writes:
        if name != file or pairs[0].original != change.original:
            continue
        if file in record.forked and pairs[0].applied == change.applied:
            return tuple(pair for pair in pairs if {*pair.patches} & {*change.patches})
        earlier = frozenset(name for pair in pairs for name in pair.patches)
        if not earlier <= frozenset(change.patches):
            continue
        added = tuple(name for name in change.patches if name not in earlier)
        if pairs[-1].applied == change.applied and not added:
            return pairs
        if added:
            return (*pairs, AppliedFile(pairs[-1].applied, change.applied, added))
        return (*pairs[:-1], msgspec.structs.replace(pairs[-1], applied=change.applied))
    return (change,)


class _DamagedError(ValueError):
    """What is wrong with one of a record's files, and what to do."""

    def __init__(self, file: str, what: str, advice: str) -> None:
        super().__init__(what)
        self.what = f"{RECORD}/{file} {what}"
        self.advice = advice


def read(tree: Tree) -> Record:
    """Return a tree's record, empty without one. Raise TreeError if it is damaged or from a newer patchkit."""
    try:
        return parsed(tuple(sorted(tree.record().items())))
    except _DamagedError as error:
        raise TreeError(f"{tree.package_label}: {error.what}", advice=error.advice) from None


@lru_cache(maxsize=16)
def parsed(files: tuple[tuple[str, bytes], ...]) -> Record:
    """Return the record in files, by name. Raise ValueError if one is damaged or from a newer patchkit."""
    blocks: dict[str, _RecordFile] = {}
    named: dict[str, str] = {}
    for name, content in files:
        block = _block(name, content)
        if block.id in blocks:
            raise _DamagedError(
                name,
                f"has the id {block.id!r}, as {named[block.id]} has",
                "remove the one that git does not have",
            )
        blocks[block.id], named[block.id] = block, name
    return _record(dict(sorted(blocks.items())))


@lru_cache(maxsize=256)
def _block(name: str, content: bytes) -> _RecordFile:
    if _MARKER.search(content):
        raise _DamagedError(name, "has conflict markers", "keep one of the two sides, and remove the markers")
    damaged = "restore it with git, or remove it: edits without a record are judged by the code"
    if not is_record_file(f"{RECORD}/{name}"):
        raise _DamagedError(name, "has a name that no system is sure to keep", damaged)
    try:
        table = toml.read(content)
        version = table.get("format")
        if isinstance(version, int) and version > FORMAT:
            raise _DamagedError(name, f"is from a newer patchkit (format {version})", "upgrade patchkit")
        block = msgspec.convert(table, _RecordFile)
    except toml.TomlError as error:
        raise _DamagedError(name, f"is damaged ({error})", damaged) from None
    except msgspec.ValidationError as error:
        # Only here, since it takes as long to import as a record to read.
        from patchkit.patchset.malformed import malformation_of

        raise _DamagedError(
            name, f"is damaged ({malformation_of(error, _RecordFile).what})", damaged
        ) from None
    if block.format != FORMAT:
        raise _DamagedError(name, f"is damaged (format {block.format})", damaged)
    return block


def _record(blocks: Mapping[str, _RecordFile]) -> Record:
    """Return the record of its blocks: writes of one layer and file, each from what another left, are one change."""
    places: dict[tuple[int, str], dict[str, list[tuple[str, _Write]]]] = {}
    for name, block in blocks.items():
        for write in block.write:
            key = (write.layer, name if block.kind == "port" else "")
            places.setdefault(key, {}).setdefault(write.file, []).append((name, write))
    layers: list[Layer] = []
    writes: set[tuple[str, tuple[AppliedFile, ...]]] = set()
    forked: set[str] = set()
    for (number, port), files in sorted(places.items()):
        applied_files: dict[str, AppliedFile] = {}
        for file, items in files.items():
            pairs = _chained(items)
            if pairs is None:
                forked.add(file)
                pairs = tuple(AppliedFile(write.before, write.after, (name,)) for name, write in items)
            last = pairs[0 if file in forked else -1]
            writes.add((file, pairs))
            names = dict.fromkeys(name for pair in pairs for name in pair.patches)
            applied_files[file] = AppliedFile(pairs[0].original, last.applied, tuple(names))
        listed = sorted({name for file in applied_files.values() for name in file.patches})
        patches = tuple(_patch(name, blocks[name], files) for name in listed)
        layers.append(Layer(patches, applied_files, is_ported=bool(port), number=number))
    return Record(tuple(layers), frozenset(writes), frozenset(forked))


def _patch(name: str, block: _RecordFile, files: Mapping[str, Sequence[tuple[str, _Write]]]) -> AppliedPatch:
    edits = tuple(
        AppliedEdit(edit, file, how)
        for file, items in files.items()
        for key, write in items
        if key == name
        for edit, how in write.edits.items()
    )
    return AppliedPatch(name, block.requires, edits, block.form, block.patchkit)


def _chained(items: Iterable[tuple[str, _Write]]) -> tuple[AppliedFile, ...] | None:
    """Return the writes of a file in their order, None if they have several."""
    pairs: dict[tuple[str | None, str | None], list[str]] = {}
    for name, write in items:
        pairs.setdefault((write.before, write.after), []).append(name)
    afters = {after for before, after in pairs if before != after}
    starts = [pair for pair in pairs if pair[0] not in afters]
    if len(pairs) == 1:
        starts = [*pairs]
    if len(starts) != 1:
        return None
    chain = [starts[0]]
    while len(chain) < len(pairs):
        following = [pair for pair in pairs if pair not in chain and pair[0] == chain[-1][1]]
        # A patch of which all edits in a file were there already did not change it.
        following = [pair for pair in following if pair[0] == pair[1]] or following
        if len(following) != 1:
            return None
        chain.append(following[0])
    return tuple(AppliedFile(before, after, tuple(pairs[before, after])) for before, after in chain)
