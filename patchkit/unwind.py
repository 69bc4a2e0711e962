"""Taking patches back is planned here, and nothing is written: a person's edits stay, or it is a conflict.

A file that stands as apply left it gets its old bytes. Where someone edited it since, the way back from what
apply left to what was there before is merged into it, three-way, layer by layer from the lowest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from merge3 import Merge3

from patchkit.errors import ConflictError
from patchkit.ledger import AppliedFile, Ledger, digest_of

if TYPE_CHECKING:
    from patchkit.ledger import Layer

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
            patches = tuple(patch for patch in layer.patches if patch.id not in gone)
            layers.append(msgspec.structs.replace(layer, files=files, patches=patches))
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
    """Bring the change from ``base`` to ``theirs`` into ``ours``."""
    if base in (ours, theirs) or ours == theirs:
        return theirs if base == ours else ours
    merged: list[bytes] = []
    texts = [text.splitlines(keepends=True) for text in (base, ours, theirs)]
    for region in Merge3(texts[0], texts[1], texts[2]).merge_regions():
        if region[0] == "conflict":
            raise ConflictError(
                f"{file}:{region[3] + 1}: edited since, where patchkit's own edit is, and the two cannot be "
                "told apart: put those lines back as apply left them, revert, and make the edit again."
            )
        source = texts[{"unchanged": 0, "same": 1, "a": 1, "b": 2}[region[0]]]
        merged += source[region[1] : region[2]]
    return b"".join(merged)
