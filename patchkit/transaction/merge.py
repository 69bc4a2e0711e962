"""Taking patches back is planned here, and nothing is written: a person's edits stay, or it is a conflict.

A file that stands as apply left it gets its old bytes. Where someone edited it since, each change from what
was there to what apply left is undone where it stands as apply left it, layer by layer from the lowest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError
from patchkit.transaction.ledger import AppliedFile, Ledger
from patchkit.transaction.store import digest_of

if TYPE_CHECKING:
    from patchkit.transaction.ledger import Layer

Replay = Callable[[Mapping[str, bytes], Sequence[str]], Mapping[str, bytes]]
"""Contents by file, and patch ids -> every one of those files' contents after these patches and no others."""


@dataclass(frozen=True)
class Unwound:
    """What a revert comes to: the ledger after it, its contents, and each file's bytes before and after."""

    ledger: Ledger
    contents: tuple[bytes, ...]
    changes: Mapping[str, tuple[bytes, bytes]]


def going(ledger: Ledger, named: frozenset[str]) -> frozenset[str]:
    """Return the patches that go when the ``named`` ones do: those and what hardens nothing that stays.

    ConflictError if a patch that stays requires one that goes.
    """
    patches = ledger.patches.values()
    gone = set(named)
    for patch in patches:
        hardened = ledger.patches.keys() & set(patch.hardens)
        if hardened and hardened <= gone:
            gone.add(patch.id)
    stranded = [patch.id for patch in patches if patch.id not in gone and gone & set(patch.requires)]
    if stranded:
        raise ConflictError(
            f"{', '.join(stranded)} cannot stay without {', '.join(sorted(named))}: "
            f"revert them together, patchkit revert {' '.join((*sorted(named), *stranded))}."
        )
    return frozenset(gone)


def unwind(
    ledger: Ledger,
    gone: frozenset[str],
    read: Callable[[str], bytes | None],
    content: Callable[[str], bytes],
    replay: Replay,
) -> Unwound:
    """Plan taking the patches in ``gone`` back from files that ``read`` gives as they stand.

    ``content`` gives the ledger's contents by digest. ConflictError names the file and line where a person's
    edit and patchkit's cannot be told apart, or the file for which ``replay`` makes something else now.
    """
    was: dict[str, bytes] = {}
    will: dict[str, bytes] = {}
    layers: list[Layer] = []
    kept: dict[str, bytes] = {}
    for layer in ledger.layers:
        originals = {file: content(known.original) for file, known in layer.files.items()}
        moved = {
            file: _merge(file, was.get(file, original), original, will.get(file, original))
            for file, original in originals.items()
        }
        was |= {file: content(known.applied) for file, known in layer.files.items()}
        will |= _without(layer, gone, replay, originals=originals, applied=was, moved=moved)
        files = {
            file: AppliedFile(digest_of(moved[file]), digest_of(will[file]), _staying(known.patches, gone))
            for file, known in layer.files.items()
            if moved[file] != will[file]
        }
        kept |= {digest_of(text): text for file in files for text in (moved[file], will[file])}
        if files:
            layers.append(layer.with_files(files))
    changes = {}
    for file, left in was.items():
        stands = read(file)
        if stands is None:
            raise ConflictError(f"{file}, which patchkit changed, is gone: put it back and revert again.")
        changes[file] = (stands, _merge(file, left, stands, will[file]))
    return Unwound(Ledger(tuple(layers)), tuple(kept.values()), changes)


def _without(
    layer: Layer,
    gone: frozenset[str],
    replay: Replay,
    *,
    originals: Mapping[str, bytes],
    applied: Mapping[str, bytes],
    moved: Mapping[str, bytes],
) -> dict[str, bytes]:
    """Return what the layer makes of the ``moved`` originals without the patches in ``gone``."""
    will = {}
    mixed = []
    for file, known in layer.files.items():
        staying = _staying(known.patches, gone)
        if not staying:
            will[file] = moved[file]
        elif staying == known.patches:
            will[file] = _merge(file, originals[file], applied[file], moved[file])
        else:
            mixed.append(file)
    if mixed:
        ids = tuple(patch.id for patch in layer.patches)
        again = replay(originals, ids)
        changed = [file for file in mixed if again[file] != applied[file]]
        if changed:
            raise ConflictError(
                f"{changed[0]}: the patches at hand no longer make what was applied, so one cannot be taken "
                "out alone: take all back with patchkit revert, then apply those that you want."
            )
        rest = replay(moved, _staying(ids, gone))
        will |= {file: rest[file] for file in mixed}
    return will


def _staying(patches: tuple[str, ...], gone: frozenset[str]) -> tuple[str, ...]:
    return tuple(patch for patch in patches if patch not in gone)


def _merge(file: str, base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """Make in ``ours`` each change from ``base`` to ``theirs`` where its lines stand as ``base`` has them.

    A three-way merge would take any edit on the line beside a change for a conflict with it; but beside the
    line that a patch added is where a person adds the next one.
    """
    if base in (ours, theirs) or ours == theirs:
        return theirs if base == ours else ours
    old, mine, new = (text.splitlines(keepends=True) for text in (base, ours, theirs))
    as_left, as_was = _Alignment(old, mine), _Alignment(new, mine)
    merged = list(mine)
    for tag, start, end, new_start, new_end in reversed(SequenceMatcher(None, old, new).get_opcodes()):
        if tag == "equal":
            continue
        at = as_left.place(start, end)
        if at is not None:
            merged[at : at + end - start] = new[new_start:new_end]
        elif as_was.place(new_start, new_end) is None:
            raise ConflictError(
                f"{file}:{as_left.line(start)}: patchkit's edit was itself edited since: put those lines "
                "back as apply left them, or, if the whole tree was replaced since, remove its .patchkit."
            )
    return b"".join(merged)


class _Alignment:
    """Where the lines of one text stand in another."""

    def __init__(self, lines: Sequence[bytes], others: Sequence[bytes]) -> None:
        blocks = SequenceMatcher(None, lines, others).get_matching_blocks()
        self._places = {start + n: other + n for start, other, size in blocks for n in range(size)}
        # The ends of the two texts stand beside each other, as lines would.
        self._places |= {-1: -1, len(lines): len(others)}

    def place(self, start: int, end: int) -> int | None:
        """Return where the lines from ``start`` to ``end`` stand together, a neighbour beside them, or None.

        No lines stand between two neighbours that touch.
        """
        at = self._places.get(start - 1, -2) + 1 if start == end else self._places.get(start, -1)
        inside = all(self._places.get(start + n) == at + n for n in range(end - start))
        beside = self._places.get(start - 1) == at - 1, self._places.get(end) == at + end - start
        return at if inside and (all(beside) if start == end else any(beside)) else None

    def line(self, start: int) -> int:
        """Return the number of the line that stands behind the last one known before ``start``."""
        return max(place for line, place in self._places.items() if line < start) + 2
