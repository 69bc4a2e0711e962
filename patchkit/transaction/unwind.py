"""Plan a revert without writing: edits of people are kept, or the revert is a conflict.

A file that was not edited since apply gets its original bytes. In an edited file each change between the original
and what apply wrote is undone, layer by layer from the lowest. The result is checked: none of the patches' edits
may be in place, and none of their comments left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol

from patchkit import collector
from patchkit.errors import ConflictError, PatchkitError
from patchkit.plan.markers import blocks_in, without_equal_conflicts
from patchkit.plan.marks import SIGN, signers
from patchkit.plan.status import noted_in
from patchkit.transaction.exact import merged_exactly
from patchkit.transaction.ledger import AppliedFile, Record
from patchkit.transaction.merge import MergeResult, merge
from patchkit.transaction.swap import digest_or_none
from patchkit.transaction.wording import signs_of, without_signs, worded_as

if TYPE_CHECKING:
    from patchkit.transaction.ledger import Layer

Contents = Mapping[str, bytes | None]
"""Bytes by file, None if it does not exist."""
_Way = tuple[Callable[[bool, tuple[str, ...]], Contents], tuple[str, ...]]
"""A function that applies patches to the originals or to their ``moved`` form, and the patches to apply."""


class StuckError(ConflictError):
    """Something prevents ``patches`` from being reverted, alone or with others."""

    def __init__(self, what: str, *patches: str, where: object = "", advice: str = "") -> None:
        super().__init__(what, where=where, advice=advice)
        self.patches = patches


class Replayer(Protocol):
    """The loaded patches, applied to and looked for in files with given contents."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the loaded patches, in order of application."""
        ...

    def replay(self, contents: Contents, ids: Sequence[str]) -> Contents:
        """Return the files of ``contents`` with exactly these patches applied."""
        ...

    def present(self, contents: Contents, ids: Sequence[str]) -> frozenset[tuple[str, str]]:
        """Return the edits in place, as (patch id, name), of those of the patches that are loaded."""
        ...


@dataclass(frozen=True)
class RevertPlan:
    """The result of a revert: the record after it, its contents, and each file's bytes before and after.

    ``emptied`` are folders that were created for files of which none is left.
    """

    record: Record
    kept: tuple[bytes, ...]
    changes: Mapping[str, tuple[bytes | None, bytes | None]]
    emptied: tuple[str, ...]


def reverted_with(record: Record, named: frozenset[str]) -> frozenset[str]:
    """Return the ``named`` patches and the patches that harden only these.

    Raise ConflictError if a patch that stays requires one of them, or if the record does not contain a ``named``
    one.
    """
    patches = record.patches.values()
    unknown = named.difference(record.patches)
    if unknown:
        raise ConflictError(
            f"{', '.join(sorted(unknown))}: neither a ledger (.patchkit) nor git's history has the original code",
            advice="use git revert or git checkout",
        )
    gone = set(named)
    for patch in patches:
        hardened = record.patches.keys() & set(patch.hardens)
        if hardened and hardened <= gone:
            gone.add(patch.id)
    stranded = [patch.id for patch in patches if patch.id not in gone and gone & set(patch.requires)]
    if stranded:
        raise ConflictError(
            f"{', '.join(stranded)} cannot stay without {', '.join(sorted(named))}",
            advice=f"revert them together: patchkit revert {' '.join((*sorted(named), *stranded))}",
        )
    return frozenset(gone)


@collector.paused()
def unwind(
    record: Record,
    gone: frozenset[str],
    read: Callable[[str], bytes | None],
    content: Callable[[str], bytes],
    replayer: Replayer,
) -> RevertPlan:
    """Plan the revert of the patches in ``gone`` from the files that ``read`` returns.

    ``content`` returns the record's contents by digest. Raise ConflictError, with file and line, where an edit
    cannot be told from patchkit's, or for a file to which the loaded patches no longer do what was applied.
    """

    left = _left(record, gone, content, replayer)
    stands = {file: read(file) for file in left.was}
    _require_own(record, gone, replayer, stands)
    merged = {}
    for file, was in left.was.items():
        try:
            merged[file] = _merged(file, was, stands[file], left.will[file], exact=file in left.ported)
        except StuckError:
            raise
        except ConflictError as refusal:
            # A person's code may be among that of several patches.
            if any(layer.is_ported for layer in record.layers if file in layer.files):
                raise
            try:
                merged[file] = _one_by_one(
                    file, stands[file], record, gone, content=content, replayer=replayer
                )
            except PatchkitError:
                raise refusal from None
    changes = {file: (stands[file], result.text) for file, result in merged.items()}
    _require_unsigned(gone, changes, left.will)
    _require_undone(record, gone, replayer, merged, left.will)
    emptied = tuple(folder for folder in record.folders if folder not in left.record.folders)
    return RevertPlan(left.record, left.kept, changes, emptied)


@dataclass(frozen=True)
class _Remainder:
    """What a record is without some of its patches, and each file as it ``was`` with them and ``will`` be without.

    A file in ``ported`` has lost a change that no patch makes again.
    """

    record: Record
    kept: tuple[bytes, ...]
    was: Contents
    will: Contents
    ported: frozenset[str]


def _left(
    record: Record, gone: frozenset[str], content: Callable[[str], bytes], replayer: Replayer
) -> _Remainder:
    """Take the patches in ``gone`` out of a record, layer by layer from the lowest."""

    def kept_as(digest: str | None) -> bytes | None:
        return None if digest is None else content(digest)

    was: dict[str, bytes | None] = {}
    will: dict[str, bytes | None] = {}
    layers: list[Layer] = []
    kept: dict[str | None, bytes] = {}
    ported: set[str] = set()
    for layer in record.layers:
        originals = {file: kept_as(known.original) for file, known in layer.files.items()}
        moved = {
            file: _merged(
                file, was.get(file, original), original, will.get(file, original), exact=file in ported
            ).text
            for file, original in originals.items()
        }
        was |= {file: kept_as(known.applied) for file, known in layer.files.items()}
        will |= _without(layer, gone, replayer, originals=originals, applied=was, moved=moved, ported=ported)
        if layer.is_ported:
            ported |= {file for file, known in layer.files.items() if gone.intersection(known.patches)}
        files = {
            file: AppliedFile(
                digest_or_none(moved[file]),
                digest_or_none(will[file]),
                _makers(layer, file, gone, moved[file], will[file]),
            )
            for file, known in layer.files.items()
            if moved[file] != will[file]
            or (known.original == known.applied and _staying(known.patches, gone))
        }
        texts = (text for file in files for text in (moved[file], will[file]))
        kept |= {digest_or_none(text): text for text in texts if text is not None}
        if files:
            layers.append(layer.with_files(files))
    return _Remainder(Record(tuple(layers)), tuple(kept.values()), was, will, frozenset(ported))


def _one_by_one(
    file: str,
    stands: bytes | None,
    record: Record,
    gone: frozenset[str],
    *,
    content: Callable[[str], bytes],
    replayer: Replayer,
) -> MergeResult:
    """Undo the patches in a file one after the other, the last first.

    Each is undone as it is beside the others or, if these stand around it in another order, as it is alone. Those of
    a layer are in the order of the loaded ones, as a clone does not know when each was applied. Raise ConflictError
    if one cannot be undone, or PatchkitError if one is not loaded.
    """
    layers = tuple(
        layer.with_files({file: layer.files[file]}) for layer in record.layers if file in layer.files
    )
    order = (*sorted(gone.difference(replayer.ids)), *replayer.ids)
    undone = frozenset[str]()
    result = MergeResult(stands, stands)

    @cache
    def without(those: frozenset[str]) -> bytes | None:
        return _left(Record(layers), those, content, replayer).will[file]

    def alone(name: str, original: str | None) -> tuple[bytes | None, bytes | None]:
        before = None if original is None else content(original)
        return replayer.replay({file: before}, (name,))[file], before

    for layer in reversed(layers):
        known = layer.files[file]
        for name in (each for each in reversed(order) if each in gone and each in known.patches):
            try:
                made = _undone(file, name, result, without(undone), without(undone | {name}))
            except ConflictError:
                made = _undone(file, name, result, *alone(name, known.original))
            undone, result = undone | {name}, made
    return result


def _undone(file: str, name: str, stands: MergeResult, was: bytes | None, will: bytes | None) -> MergeResult:
    """Make the change from ``was`` to ``will``; raise ConflictError also if a comment of the patch is left."""
    made = MergeResult(merge(file, was, stands.text, will).text, merge(file, was, stands.proof, will).proof)
    if f"{SIGN}{name}:".encode() in (made.text or b""):
        raise _differing(file)
    return made


def _merged(
    file: str, was: bytes | None, stands: bytes | None, will: bytes | None, *, exact: bool
) -> MergeResult:
    if stands is None and was is not None and will is not None:
        raise ConflictError(
            "the file, which patchkit changed, does not exist",
            where=file,
            advice="restore it and revert again",
        )
    if was is not None and stands is not None and was not in (stands, will):
        was, stands = _without_conflicts(file, was, stands)
        if will is not None and stands == without_signs(was):
            # Only the patches' comments were removed, as a formatter may do.
            left = without_signs(will)
            return MergeResult(left, left)
    # Code of a ported change has no comment.
    return merged_exactly(file, was, stands, will) if exact else merge(file, was, stands, will)


def _without_conflicts(file: str, was: bytes, stands: bytes) -> tuple[bytes, bytes]:
    """Return both without conflict markers. Raise ConflictError if the code between some was edited."""
    was, stands = without_equal_conflicts(was, stands)
    for block in blocks_in(was):
        raise StuckError(
            f"the conflict of {block.patch} {block.edit} was edited after apply",
            block.patch,
            where=file,
            advice=f"finish it, run patchkit resolve {block.patch} {block.edit} and revert again, or restore the "
            "file with git",
        )
    return was, stands


def _require_own(record: Record, gone: frozenset[str], replayer: Replayer, stands: Contents) -> None:
    """Raise ConflictError if a reverted patch has an edit in place that a person made without conflict markers."""
    taken = frozenset((p.id, e.name) for layer in record.layers for p in layer.patches for e in p.edits)
    theirs = {(name, edit) for name, edit in record.by_hand - taken if name in gone}
    if not theirs:
        return
    left = sorted(theirs & replayer.present(stands, tuple(name for name in record.patches if name in gone)))
    if left:
        name, edit = left[0]
        raise made_by_hand(name, edit)


def made_by_hand(patch: str, edit: str) -> StuckError:
    """Return the error for an edit that a person made and whose original is not known."""
    return StuckError(
        f"{edit} of {patch} was made by hand, and no ledger (.patchkit) has the original code",
        patch,
        advice="remove it and its comment by hand, for example with git, and revert again",
    )


def _require_unsigned(
    gone: frozenset[str], changes: Mapping[str, tuple[bytes | None, bytes | None]], will: Contents
) -> None:
    """Raise ConflictError if a comment of a reverted patch would be left in a file."""
    for file, (stands, left) in changes.items():
        for name in sorted(gone) if SIGN.encode() in (left or b"") else ():
            sign = f"{SIGN}{name}:".encode()
            if sign not in (left or b""):
                continue
            lines, now = (left or b"").splitlines(), (stands or b"").splitlines()
            signed = [pair for pair in zip_longest(lines, lines[1:], fillvalue=b"") if sign in pair[0]]
            if len(signed) > (will[file] or b"").count(sign):
                for by_hand in noted_in(left or b""):
                    if by_hand[0] == name and by_hand not in noted_in(will[file] or b""):
                        raise made_by_hand(*by_hand)
                pairs = list(zip_longest(now, now[1:], fillvalue=b""))
                # The code below a comment may be gone; then only the comment has its line.
                places = (
                    [number for number, pair in enumerate(pairs, 1) if pair[:size] == signed[-1][:size]]
                    for size in (2, 1)
                )
                line = next((found[-1] for found in places if found), 1)
                raise StuckError(
                    f"a comment of {name} would be left: its code was copied or edited after apply",
                    name,
                    where=f"{file}:{line}",
                    advice="remove that code or that comment, or use the version of patchkit that applied it, and "
                    "revert again",
                )


def _require_undone(
    record: Record,
    gone: frozenset[str],
    replayer: Replayer,
    merged: Mapping[str, MergeResult],
    will: Contents,
) -> None:
    """Raise ConflictError if an edit of a reverted patch would still be in place in an edited file."""
    edited = {file: result for file, result in merged.items() if result.text != will[file]}
    if not edited:
        return
    ids = tuple(name for name in record.patches if name in gone)
    results = {**will, **{file: result.proof for file, result in edited.items()}}
    left = replayer.present(results, ids) - replayer.present(will, ids)
    made = {
        (p.id, edit.name): edit for p in record.patches.values() for edit in p.edits if edit.file in edited
    }
    still = sorted(left & made.keys())
    if still:
        name, edit = still[0]
        known = made[name, edit]
        raise StuckError(
            f"{edit} of {name} would still be in place: its code was copied or moved after apply",
            name,
            where=f"{known.file}: {known.site or 'module'}",
            advice="remove that code and revert again",
        )


def _without(
    layer: Layer,
    gone: frozenset[str],
    replayer: Replayer,
    *,
    originals: Contents,
    applied: Contents,
    moved: Contents,
    ported: Collection[str],
) -> dict[str, bytes | None]:
    """Return the files after the layer, from the ``moved`` originals and without the patches in ``gone``.

    A file in ``ported`` has lost a change that no patch makes again.
    """
    will: dict[str, bytes | None] = {}
    mixed = []
    for file, known in layer.files.items():
        staying = _staying(known.patches, gone)
        if not staying:
            will[file] = moved[file]
        elif staying == known.patches and (layer.is_ported or file in ported):
            try:
                will[file] = merged_exactly(file, originals[file], applied[file], moved[file]).text
            except ConflictError:
                raise _tangled(file, gone, known.patches) from None
        elif staying == known.patches:
            will[file] = merge(file, originals[file], applied[file], moved[file]).text
        else:
            mixed.append(file)
    every = tuple(patch.id for patch in layer.patches)

    @cache
    def replay(of_moved: bool, ids: tuple[str, ...]) -> Contents:
        return replayer.replay(moved if of_moved else originals, ids)

    def one_by_one(of_moved: bool, ids: tuple[str, ...]) -> Contents:
        contents = moved if of_moved else originals
        for name in ids:
            contents = {**contents, **replayer.replay(contents, (name,))}
        return contents

    for file in mixed:
        own = layer.files[file].patches
        # Patches applied one after the other around a person's edit may differ from all applied together.
        ways: tuple[_Way, ...] = ((replay, every), (replay, own), (one_by_one, own))
        for make, ids in ways:
            made = make(False, ids)[file]
            if worded_as(applied[file], made) == applied[file]:
                left = make(True, _staying(ids, gone))[file]
                will[file] = left if made == applied[file] else _worded(file, applied[file], left, own, gone)
                break
        else:
            together, alone = replay(False, every), replay(False, _staying(every, gone))
            try:
                left = _taken_out(file, together[file], applied[file], alone[file])
            except ConflictError:
                worded = _worded(file, applied[file], alone[file], own, gone)
                left = _taken_out(file, worded_as(applied[file], together[file]), applied[file], worded)
            will[file] = merge(file, originals[file], left, moved[file]).text
    return will


def _tangled(file: str, gone: frozenset[str], staying: tuple[str, ...]) -> StuckError:
    """Return the error for two changes of the same code, one of which is to be reverted."""
    names = dict.fromkeys((*sorted(gone), *staying))
    left = ", ".join(name for name in staying if name not in gone)
    return StuckError(
        f"{left} changed the same code as {', '.join(sorted(gone))}, or depends on it",
        *sorted(gone),
        where=file,
        advice=f"revert them together: patchkit revert {' '.join(names)}",
    )


def _taken_out(file: str, together: bytes | None, applied: bytes | None, alone: bytes | None) -> bytes | None:
    """Return ``applied`` without the code of the reverted patches; ``alone`` is what the others make.

    ``applied`` may have the code of ``combined_plan`` in another order, if a person edited in between. Raise
    ConflictError unless the result has the lines that the others make.
    """
    try:
        left = merge(file, together, applied, alone).text
    except ConflictError:
        left = None
    if left is None or _lines(left) != _lines(alone):
        raise _differing(file)
    return left


def _worded(
    file: str, applied: bytes | None, alone: bytes | None, patches: tuple[str, ...], gone: frozenset[str]
) -> bytes | None:
    """Return ``alone`` with the words of ``applied`` in the comments; raise ConflictError if one would differ."""
    left = worded_as(applied, alone)
    if any(signs_of(left, name) != signs_of(applied, name) for name in _staying(patches, gone)):
        raise _differing(file)
    return left


def _differing(file: str) -> ConflictError:
    return ConflictError(
        "the loaded patches differ from the applied ones, so one cannot be reverted alone",
        where=file,
        advice="run patchkit revert without a name, then apply the patches that you want, or use the version of "
        "patchkit that applied them",
    )


def _lines(text: bytes | None) -> Counter[bytes]:
    return Counter(line for line in (text or b"").splitlines() if line.strip())


def _makers(
    layer: Layer, file: str, gone: frozenset[str], moved: bytes | None, will: bytes | None
) -> tuple[str, ...]:
    """Return the patches that make a file after the revert, also one that now makes what a reverted one had made."""
    staying = _staying(layer.files[file].patches, gone)
    signed = signers(will or b"") - signers(moved or b"")
    fresh = (patch.id for patch in layer.patches if patch.id in signed - gone)
    return tuple(dict.fromkeys((*staying, *fresh)))


def _staying(patches: tuple[str, ...], gone: frozenset[str]) -> tuple[str, ...]:
    return tuple(patch for patch in patches if patch not in gone)
