"""Taking patches back is planned here, and nothing is written: a person's edits stay, or it is a conflict.

A file that stands as apply left it gets its old bytes. Where someone edited it since, each change from what
was there to what apply left is undone where it stands, layer by layer from the lowest; that it is undone is
shown by the patches themselves, and by no comment of theirs being left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol

from patchkit import collector
from patchkit.errors import ConflictError
from patchkit.plan.markers import blocks_in, without_same
from patchkit.plan.marks import SIGN, signers
from patchkit.plan.status import noted_in
from patchkit.transaction.ledger import AppliedFile, Record
from patchkit.transaction.merge import Undone, merge
from patchkit.transaction.swap import digest_or_none

if TYPE_CHECKING:
    from patchkit.transaction.ledger import Layer

Contents = Mapping[str, bytes | None]
"""Bytes by file; None stands for no file."""
_Way = tuple[Callable[[bool, tuple[str, ...]], Contents], tuple[str, ...]]
"""What gives the files under patches, with the originals or those that were moved, and which patches."""


class StuckError(ConflictError):
    """Something keeps ``patches`` from being taken back, alone or with others."""

    def __init__(self, message: str, *patches: str) -> None:
        super().__init__(message)
        self.patches = patches


class AtHand(Protocol):
    """The patches at hand, asked about files with other contents than they have."""

    def replay(self, contents: Contents, ids: Sequence[str]) -> Contents:
        """Return what the files of ``contents`` become under these patches and no others."""
        ...

    def present(self, contents: Contents, ids: Sequence[str]) -> frozenset[tuple[str, str]]:
        """Return the edits, as patch id and name, of those of the patches that are known that are in place."""
        ...


@dataclass(frozen=True)
class Unwound:
    """What a revert comes to: the record after it, its contents, and each file's bytes before and after.

    ``emptied`` are folders that were made for files of which none is left.
    """

    record: Record
    kept: tuple[bytes, ...]
    changes: Mapping[str, tuple[bytes | None, bytes | None]]
    emptied: tuple[str, ...]


def going(record: Record, named: frozenset[str]) -> frozenset[str]:
    """Return the patches that go when the ``named`` ones do: those and what hardens nothing that stays.

    ConflictError if a patch that stays requires one that goes, or if the record does not know one of the ``named``.
    """
    patches = record.patches.values()
    unknown = named.difference(record.patches)
    if unknown:
        raise ConflictError(
            f"{', '.join(sorted(unknown))}: in the code, and neither a ledger (.patchkit) nor git's history says what "
            "stood there before: undo it with git revert or git checkout."
        )
    gone = set(named)
    for patch in patches:
        hardened = record.patches.keys() & set(patch.hardens)
        if hardened and hardened <= gone:
            gone.add(patch.id)
    stranded = [patch.id for patch in patches if patch.id not in gone and gone & set(patch.requires)]
    if stranded:
        raise ConflictError(
            f"{', '.join(stranded)} cannot stay without {', '.join(sorted(named))}: "
            f"revert them together, patchkit revert {' '.join((*sorted(named), *stranded))}."
        )
    return frozenset(gone)


@collector.paused()
def unwind(
    record: Record,
    gone: frozenset[str],
    read: Callable[[str], bytes | None],
    content: Callable[[str], bytes],
    at_hand: AtHand,
) -> Unwound:
    """Plan taking the patches in ``gone`` back from files that ``read`` gives as they stand.

    ``content`` gives the record's contents by digest. ConflictError names the file and line where a person's
    edit and patchkit's cannot be told apart, or the file for which the patches make something else now.
    """

    def kept_as(digest: str | None) -> bytes | None:
        return None if digest is None else content(digest)

    was: dict[str, bytes | None] = {}
    will: dict[str, bytes | None] = {}
    layers: list[Layer] = []
    kept: dict[str | None, bytes] = {}
    for layer in record.layers:
        originals = {file: kept_as(known.original) for file, known in layer.files.items()}
        moved = {
            file: _merged(file, was.get(file, original), original, will.get(file, original)).text
            for file, original in originals.items()
        }
        was |= {file: kept_as(known.applied) for file, known in layer.files.items()}
        will |= _without(layer, gone, at_hand, originals=originals, applied=was, moved=moved)
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
    left = Record(tuple(layers))
    stands = {file: read(file) for file in was}
    _require_own(record, gone, at_hand, stands)
    merged = {file: _merged(file, was[file], stands[file], will[file]) for file in was}
    changes = {file: (stands[file], result.text) for file, result in merged.items()}
    _require_unsigned(gone, changes, will)
    _require_undone(record, gone, at_hand, merged, will)
    emptied = tuple(folder for folder in record.folders if folder not in left.folders)
    return Unwound(left, tuple(kept.values()), changes, emptied)


def _merged(file: str, was: bytes | None, stands: bytes | None, will: bytes | None) -> Undone:
    if stands is None and was is not None and will is not None:
        raise ConflictError(f"{file}, which patchkit changed, is gone: put it back and revert again.")
    if was is not None and stands is not None and was not in (stands, will):
        was, stands = _without_conflicts(file, was, stands)
    return merge(file, was, stands, will)


def _without_conflicts(file: str, was: bytes, stands: bytes) -> tuple[bytes, bytes]:
    """Return both without the conflicts that apply left in them; ConflictError if someone is at work on one."""
    was, stands = without_same(was, stands)
    for block in blocks_in(was):
        raise StuckError(
            f"{file}: the conflict of {block.patch} {block.edit} was edited since: finish it, run patchkit resolve "
            f"{block.patch} {block.edit} and revert again, or put the file back with git.",
            block.patch,
        )
    return was, stands


def _require_own(record: Record, gone: frozenset[str], at_hand: AtHand, stands: Contents) -> None:
    """Raise ConflictError if a patch that goes has an edit in place that a person made and apply did not begin."""
    taken = frozenset((p.id, e.name) for layer in record.layers for p in layer.patches for e in p.edits)
    theirs = {(name, edit) for name, edit in record.by_hand - taken if name in gone}
    if not theirs:
        return
    left = sorted(theirs & at_hand.present(stands, tuple(name for name in record.patches if name in gone)))
    if left:
        name, edit = left[0]
        raise made_by_hand(name, edit)


def made_by_hand(patch: str, edit: str) -> StuckError:
    """Return the refusal of taking back what a person made and nothing tells from what was there before."""
    return StuckError(
        f"{patch}: {edit} was made by hand, and no ledger (.patchkit) has what was there before: take it and its "
        "comment out yourself, as git has it for instance, and revert again.",
        patch,
    )


def _require_unsigned(
    gone: frozenset[str], changes: Mapping[str, tuple[bytes | None, bytes | None]], will: Contents
) -> None:
    """Raise ConflictError if a comment of a patch that goes would be left in a file."""
    for file, (stands, left) in changes.items():
        for name in sorted(gone):
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
                line = max((number for number, pair in enumerate(pairs, 1) if pair == signed[-1]), default=1)
                raise StuckError(
                    f"{file}:{line}: a comment of {name} would be left there, so what it marks was copied or "
                    "edited since: take that code or that comment out and revert again.",
                    name,
                )


def _require_undone(
    record: Record, gone: frozenset[str], at_hand: AtHand, merged: Mapping[str, Undone], will: Contents
) -> None:
    """Raise ConflictError if an edit of a patch that goes would still be in place in a file that was edited."""
    edited = {file: result for file, result in merged.items() if result.text != will[file]}
    if not edited:
        return
    ids = tuple(name for name in record.patches if name in gone)
    results = {**will, **{file: result.proof for file, result in edited.items()}}
    left = at_hand.present(results, ids) - at_hand.present(will, ids)
    made = {
        (p.id, edit.name): edit for p in record.patches.values() for edit in p.edits if edit.file in edited
    }
    still = sorted(left & made.keys())
    if still:
        name, edit = still[0]
        known = made[name, edit]
        raise StuckError(
            f"{known.file}: {known.site or 'module'}: {name}: {edit} would still be in place, so its code was "
            "copied or moved since: take it out there and revert again.",
            name,
        )


def _without(
    layer: Layer,
    gone: frozenset[str],
    at_hand: AtHand,
    *,
    originals: Contents,
    applied: Contents,
    moved: Contents,
) -> dict[str, bytes | None]:
    """Return what the layer makes of the ``moved`` originals without the patches in ``gone``."""
    will: dict[str, bytes | None] = {}
    mixed = []
    for file, known in layer.files.items():
        staying = _staying(known.patches, gone)
        if not staying:
            will[file] = moved[file]
        elif staying == known.patches:
            will[file] = merge(file, originals[file], applied[file], moved[file]).text
        else:
            mixed.append(file)
    every = tuple(patch.id for patch in layer.patches)

    @cache
    def replay(of_moved: bool, ids: tuple[str, ...]) -> Contents:
        return at_hand.replay(moved if of_moved else originals, ids)

    def one_by_one(of_moved: bool, ids: tuple[str, ...]) -> Contents:
        contents = moved if of_moved else originals
        for name in ids:
            contents = {**contents, **at_hand.replay(contents, (name,))}
        return contents

    for file in mixed:
        own = layer.files[file].patches
        # Around a person's edit patches that came one after the other may stand otherwise than together.
        ways: tuple[_Way, ...] = ((replay, every), (replay, own), (one_by_one, own))
        for make, ids in ways:
            if make(False, ids)[file] == applied[file]:
                will[file] = make(True, _staying(ids, gone))[file]
                break
        else:
            together, alone = replay(False, every), replay(False, _staying(every, gone))
            left = _taken_out(file, together[file], applied[file], alone[file])
            will[file] = merge(file, originals[file], left, moved[file]).text
    return will


def _taken_out(file: str, together: bytes | None, applied: bytes | None, alone: bytes | None) -> bytes | None:
    """Return what was ``applied`` without what the patches that stay ``alone`` do not make.

    It may have what all make ``together`` in another order, as a person's edit in between brings it about.
    ConflictError unless it has in the end the lines that the others make.
    """
    try:
        left = merge(file, together, applied, alone).text
    except ConflictError:
        left = None
    if left is None or _lines(left) != _lines(alone):
        raise ConflictError(
            f"{file}: the loaded patches do not make together what was applied, so one cannot be taken "
            "out alone: take all back with patchkit revert, then apply those that you want."
        )
    return left


def _lines(text: bytes | None) -> Counter[bytes]:
    return Counter(line for line in (text or b"").splitlines() if line.strip())


def _makers(
    layer: Layer, file: str, gone: frozenset[str], moved: bytes | None, will: bytes | None
) -> tuple[str, ...]:
    """Return whose a file is then: one that stays may have to make what one that goes had made for both."""
    staying = _staying(layer.files[file].patches, gone)
    signed = signers(will or b"") - signers(moved or b"")
    fresh = (patch.id for patch in layer.patches if patch.id in signed - gone)
    return tuple(dict.fromkeys((*staying, *fresh)))


def _staying(patches: tuple[str, ...], gone: frozenset[str]) -> tuple[str, ...]:
    return tuple(patch for patch in patches if patch not in gone)
