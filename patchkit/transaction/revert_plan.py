"""Plan a revert without writing: edits of people are kept, or the revert is a conflict.

A file that was not edited since apply gets its original bytes. In an edited file each change between the original
and what apply wrote is undone, layer by layer from the lowest. The result is checked: none of the patches' edits
and none of their comments may remain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING

from patchkit import memory
from patchkit.change.lines import with_block
from patchkit.errors import ConflictError, PatchkitError
from patchkit.plan.comments import COMMENT_PREFIX, commenting_patches
from patchkit.plan.markers import marked_conflicts, without_equal_conflicts
from patchkit.plan.record import AppliedFile, Record
from patchkit.plan.status import noted_in
from patchkit.transaction.edited import difference, is_lost, lost_file
from patchkit.transaction.passages import is_replaced
from patchkit.transaction.swap import content_or_none, digest_or_none
from patchkit.transaction.undo import Undone, edited_error, undo
from patchkit.transaction.wording import patch_comments, with_wording_of
from patchkit.tree.tree import Contents

if TYPE_CHECKING:
    from patchkit.plan.planner import Planner
    from patchkit.plan.record import AppliedPatch, Layer

_Attempt = tuple[Callable[[bool, tuple[str, ...]], Contents], tuple[str, ...]]
"""A function that applies patches to the originals or to their ``rebased`` form, and the patches to apply."""


class RevertBlockedError(ConflictError):
    """Something prevents ``patches`` from being reverted, alone or with others.

    With ``together`` they are not reverted without these, which may be possible.
    """

    def __init__(
        self,
        what: str,
        *patches: str,
        where: object = "",
        advice: str = "",
        reasons: Sequence[str] = (),
        together: Collection[str] = (),
    ) -> None:
        super().__init__(what, where=where, advice=advice, reasons=reasons)
        self.patches, self.together = patches, frozenset(together)


@dataclass(frozen=True)
class RevertPlan:
    """The result of a revert: the record after it, its contents, and each file's bytes before and after."""

    record: Record
    kept: tuple[bytes, ...]
    changes: Mapping[str, tuple[bytes | None, bytes | None]]


def require_removable(record: Record, named: frozenset[str], not_loaded: dict[str, AppliedPatch]) -> None:
    """Raise ConflictError if a patch that stays requires a ``named`` one, or if the record lacks a ``named`` one."""
    patches = (record.patches | not_loaded).values()
    unknown = named.difference(record.patches)
    if unknown:
        raise ConflictError(
            f"{', '.join(sorted(unknown))}: neither the record nor git's history has the original code",
            advice="use git revert or git checkout",
        )
    dependents = [patch.id for patch in patches if patch.id not in named and named & set(patch.requires)]
    if dependents:
        raise RevertBlockedError(
            f"{', '.join(dependents)} cannot stay without {', '.join(sorted(named))}",
            *sorted(named),
            together=dependents,
        )


@memory.collector_paused()
def plan_revert(
    record: Record,
    reverted: frozenset[str],
    read: Callable[[str], bytes | None],
    content: Callable[[str], bytes],
    planner: Planner,
) -> RevertPlan:
    """Plan the revert of the patches in ``reverted`` from the files that ``read`` returns.

    ``content`` returns the record's contents by digest. Raise ConflictError, with file and line, where a person's edit
    cannot be distinguished from patchkit's, or for a file that the loaded patches change differently than the applied
    ones did.
    """
    remainder = _remainder(record, reverted, content, planner)
    current = {file: read(file) for file in remainder.before}
    _require_no_manual_edits(record, reverted, planner, current)
    merged = {}
    for file, before in remainder.before.items():
        try:
            merged[file] = _merged(file, before, current[file], remainder.after[file])
        except RevertBlockedError:
            raise
        except ConflictError as conflict:
            # A person's code may be between the code of several patches.
            if any(layer.is_ported for layer in record.layers if file in layer.files):
                raise
            try:
                merged[file] = _revert_one_by_one(
                    file, current[file], record, reverted, content=content, planner=planner
                )
            except PatchkitError:
                raise conflict from None
    for file, before in remainder.before.items():
        # A merge takes what it does not find for removed.
        if current[file] != before and is_replaced(remainder.after[file], before, current[file]):
            edited = edited_error(file)
            edited.difference = difference(remainder.after[file], before, current[file])
            raise edited
    changes = {file: (current[file], result.text) for file, result in merged.items()}
    _require_no_comments(reverted, changes, remainder.after)
    _require_undone(record, reverted, planner, merged, remainder.after)
    return RevertPlan(remainder.record, remainder.kept, changes)


def undo_ports(
    layers: Iterable[tuple[Layer, Callable[[str], bytes]]],
    read: Callable[[str], bytes | None],
    planner: Planner,
) -> Iterator[tuple[str, bool | None]]:
    """Undo ported changes one after the other in the files that ``read`` returns; each layer has its contents.

    Yield each name with whether its code was there, None if that cannot be undone.
    """
    undone: dict[str, bytes | None] = {}

    def current(file: str) -> bytes | None:
        return undone[file] if file in undone else read(file)

    for layer, content in layers:
        record = Record((layer,))
        was_there = None
        with suppress(PatchkitError):
            changes = _undone_blocks(layer, current, content) or (
                plan_revert(record, record.ported, current, content, planner).changes
            )
            undone |= {file: after for file, (_, after) in changes.items()}
            was_there = any(before != after for before, after in changes.values())
        yield from ((name, was_there) for name in record.patches)


def _undone_blocks(
    layer: Layer, read: Callable[[str], bytes | None], content: Callable[[str], bytes]
) -> Mapping[str, tuple[bytes | None, bytes | None]]:
    """Return each file before and after its block of changed lines is undone; none if that fails in one."""
    changes: dict[str, tuple[bytes | None, bytes | None]] = {}
    for file, change in layer.files.items():
        current = read(file)
        if current is None or change.applied is None or change.original is None:
            return {}
        text = with_block(content(change.applied), content(change.original), current)
        if text is None:
            return {}
        changes[file] = current, text
    return changes


@dataclass(frozen=True)
class _Remainder:
    """A record without the reverted patches, and each file ``before`` and ``after`` they are removed."""

    record: Record
    kept: tuple[bytes, ...]
    before: Contents
    after: Contents


def _remainder(
    record: Record, reverted: frozenset[str], content: Callable[[str], bytes], planner: Planner
) -> _Remainder:
    """Remove the patches in ``reverted`` from a record, layer by layer from the lowest."""
    before: dict[str, bytes | None] = {}
    after: dict[str, bytes | None] = {}
    layers: list[Layer] = []
    kept: dict[str | None, bytes] = {}
    ported: set[str] = set()
    for layer in record.layers:
        originals = {file: content_or_none(change.original, content) for file, change in layer.files.items()}
        rebased = {
            file: _merged(file, before.get(file, original), original, after.get(file, original)).text
            for file, original in originals.items()
        }
        before |= {file: content_or_none(change.applied, content) for file, change in layer.files.items()}
        after |= _layer_after(
            layer, reverted, planner, originals=originals, applied=before, rebased=rebased, ported=ported
        )
        if layer.is_ported:
            ported |= {file for file, change in layer.files.items() if reverted.intersection(change.patches)}
        files = {
            file: AppliedFile(
                digest_or_none(rebased[file]),
                digest_or_none(after[file]),
                _patches_in(layer, file, reverted, rebased[file], after[file]),
            )
            for file, change in layer.files.items()
            if rebased[file] != after[file]
            or (change.original == change.applied and _kept(change.patches, reverted))
        }
        texts = (text for file in files for text in (rebased[file], after[file]))
        kept |= {digest_or_none(text): text for text in texts if text is not None}
        if files:
            layers.append(layer.with_files(files))
    return _Remainder(record.replaced(Record(tuple(layers))), tuple(kept.values()), before, after)


def _revert_one_by_one(
    file: str,
    current: bytes | None,
    record: Record,
    reverted: frozenset[str],
    *,
    content: Callable[[str], bytes],
    planner: Planner,
) -> Undone:
    """Undo the patches in a file one after the other, the last first.

    Each is undone as it is applied together with the others or, if these surround it in another order, as it is applied
    alone. The patches of a layer are in the order of the loaded ones, as a clone does not record when each was applied.
    Raise ConflictError if one cannot be undone, or PatchkitError if one is not loaded.
    """
    layers = tuple(
        layer.with_files({file: layer.files[file]}) for layer in record.layers if file in layer.files
    )
    order = (*sorted(reverted.difference(planner.ids)), *planner.ids)
    done = frozenset[str]()
    result = Undone(current, current)

    @cache
    def without(ids: frozenset[str]) -> bytes | None:
        return _remainder(Record(layers), ids, content, planner).after[file]

    def alone(name: str, original: str | None) -> tuple[bytes | None, bytes | None]:
        before = content_or_none(original, content)
        return planner.replay({file: before}, (name,))[file], before

    for layer in reversed(layers):
        change = layer.files[file]
        for name in (name for name in reversed(order) if name in reverted and name in change.patches):
            try:
                undone = _undo_patch(file, name, result, without(done), without(done | {name}))
            except ConflictError:
                undone = _undo_patch(file, name, result, *alone(name, change.original))
            done, result = done | {name}, undone
    return result


def _undo_patch(file: str, name: str, ours: Undone, base: bytes | None, theirs: bytes | None) -> Undone:
    """Make the change from ``base`` to ``theirs``. Raise ConflictError also if a comment of the patch remains."""
    result = Undone(
        undo(file, base, ours.text, theirs).text, undo(file, base, ours.stripped, theirs).stripped
    )
    is_kept = base is None and theirs is None and result.text is not None
    if is_kept or f"{COMMENT_PREFIX}{name}:".encode() in (result.text or b""):
        raise _differing_error(file)
    return result


def _merged(file: str, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> Undone:
    if base != theirs and is_lost(ours) and not (is_lost(base) or is_lost(theirs)):
        advice = "restore it, for example with git restore, and revert again"
        raise RevertBlockedError(lost_file(ours), where=file, advice=advice)
    if base is not None and ours is not None and base not in (ours, theirs):
        base, ours = _without_conflicts(file, base, ours)
    try:
        return undo(file, base, ours, theirs)
    except ConflictError as conflict:
        conflict.difference = difference(theirs, base, ours)
        raise


def _without_conflicts(file: str, base: bytes, ours: bytes) -> tuple[bytes, bytes]:
    """Return both without conflict markers. Raise ConflictError if the code between some was edited."""
    base, ours = without_equal_conflicts(base, ours)
    for block in marked_conflicts(base):
        raise RevertBlockedError(
            f"the conflict of {block.patch} {block.edit} was edited after apply",
            block.patch,
            where=file,
            advice=f"finish it, run patchkit resolve {block.patch} {block.edit} and revert again, or restore the "
            "file with git",
        )
    return base, ours


def _require_no_manual_edits(
    record: Record, reverted: frozenset[str], planner: Planner, current: Contents
) -> None:
    """Raise ConflictError if a reverted patch has an edit in place that a person made without conflict markers."""
    revertible = frozenset(
        (p.id, e.name) for layer in record.layers for p in layer.patches for e in p.revertible
    )
    manual = {(name, edit) for name, edit in record.manual_edits - revertible if name in reverted}
    if not manual:
        return
    remaining = sorted(
        manual & planner.present(current, tuple(name for name in record.patches if name in reverted))
    )
    if remaining:
        raise manual_edit_error(*remaining[0], record.manual_files[remaining[0]])


def manual_edit_error(patch: str, edit: str, file: str) -> RevertBlockedError:
    """Return the error for an edit that a person made and whose original is not known."""
    return RevertBlockedError(
        f"{edit} of {patch} was made by hand, and no record has the original code",
        patch,
        where=file,
        advice="remove it and its comment by hand, for example with git, and revert again",
    )


def _require_no_comments(
    reverted: frozenset[str], changes: Mapping[str, tuple[bytes | None, bytes | None]], expected: Contents
) -> None:
    """Raise ConflictError if a comment of a reverted patch would remain in a file."""
    for file, (current, result) in changes.items():
        for name in sorted(reverted) if COMMENT_PREFIX.encode() in (result or b"") else ():
            comment = f"{COMMENT_PREFIX}{name}:".encode()
            if comment not in (result or b""):
                continue
            lines, current_lines = (result or b"").splitlines(), (current or b"").splitlines()
            commented = [pair for pair in zip_longest(lines, lines[1:], fillvalue=b"") if comment in pair[0]]
            if len(commented) > (expected[file] or b"").count(comment):
                for patch, edit in noted_in(result or b""):
                    if patch == name and (patch, edit) not in noted_in(expected[file] or b""):
                        raise manual_edit_error(patch, edit, file)
                pairs = list(zip_longest(current_lines, current_lines[1:], fillvalue=b""))
                # If the code below a comment was deleted, only the comment is searched.
                places = (
                    [number for number, pair in enumerate(pairs, 1) if pair[:size] == commented[-1][:size]]
                    for size in (2, 1)
                )
                line = next((numbers[-1] for numbers in places if numbers), 1)
                raise RevertBlockedError(
                    f"a comment of {name} would be left: its code was copied or edited after apply",
                    name,
                    where=f"{file}:{line}",
                    advice="remove that code or that comment, or use the version of patchkit that applied it, and "
                    "revert again",
                )


def _require_undone(
    record: Record,
    reverted: frozenset[str],
    planner: Planner,
    merged: Mapping[str, Undone],
    expected: Contents,
) -> None:
    """Raise ConflictError if an edit of a reverted patch would still be in place in an edited file."""
    edited = {file: result for file, result in merged.items() if result.text != expected[file]}
    if not edited:
        return
    ids = tuple(name for name in record.patches if name in reverted)
    results = {**expected, **{file: result.stripped for file, result in edited.items()}}
    present = planner.present(results, ids) - planner.present(expected, ids)
    recorded = {
        (p.id, edit.name): edit
        for p in record.patches.values()
        for edit in p.revertible
        if edit.file in edited
    }
    remaining = sorted(present & recorded.keys())
    if remaining:
        name, edit = remaining[0]
        edit_record = recorded[name, edit]
        raise RevertBlockedError(
            f"{edit} of {name} would still be in place: its code was copied or moved after apply",
            name,
            where=edit_record.file,
            advice="remove that code and revert again",
        )


def _layer_after(
    layer: Layer,
    reverted: frozenset[str],
    planner: Planner,
    *,
    originals: Contents,
    applied: Contents,
    rebased: Contents,
    ported: Collection[str],
) -> dict[str, bytes | None]:
    """Return the files after the layer, from the ``rebased`` originals and without the patches in ``reverted``.

    From each file in ``ported`` a ported change was removed, which no patch makes again.
    """
    after: dict[str, bytes | None] = {}
    mixed = []
    for file, change in layer.files.items():
        kept = _kept(change.patches, reverted)
        if not kept:
            after[file] = rebased[file]
        elif kept == change.patches:
            try:
                after[file] = undo(file, originals[file], applied[file], rebased[file]).text
            except ConflictError:
                if not (layer.is_ported or file in ported):
                    raise
                raise _dependent_error(file, reverted, change.patches) from None
        else:
            mixed.append(file)
    all_patches = tuple(patch.id for patch in layer.patches)

    @cache
    def replay(on_rebased: bool, ids: tuple[str, ...]) -> Contents:
        return planner.replay(rebased if on_rebased else originals, ids)

    def replay_one_by_one(on_rebased: bool, ids: tuple[str, ...]) -> Contents:
        contents = rebased if on_rebased else originals
        for name in ids:
            contents = {**contents, **planner.replay(contents, (name,))}
        return contents

    for file in mixed:
        patches = layer.files[file].patches
        # Patches applied one after the other around a person's edit may differ from all applied together.
        attempts: tuple[_Attempt, ...] = (
            (replay, all_patches),
            (replay, patches),
            (replay_one_by_one, patches),
        )
        for apply, ids in attempts:
            text = apply(False, ids)[file]
            if with_wording_of(applied[file], text) == applied[file]:
                reduced = apply(True, _kept(ids, reverted))[file]
                after[file] = (
                    reduced
                    if text == applied[file]
                    else _with_applied_wording(file, applied[file], reduced, patches, reverted)
                )
                break
        else:
            with_all, without_reverted = (
                replay(False, all_patches),
                replay(False, _kept(all_patches, reverted)),
            )
            try:
                reduced = _subtract(file, with_all[file], applied[file], without_reverted[file])
            except ConflictError:
                worded = _with_applied_wording(file, applied[file], without_reverted[file], patches, reverted)
                reduced = _subtract(
                    file, with_wording_of(applied[file], with_all[file]), applied[file], worded
                )
            after[file] = undo(file, originals[file], reduced, rebased[file]).text
    return after


def _dependent_error(file: str, reverted: frozenset[str], patches: tuple[str, ...]) -> RevertBlockedError:
    """Return the error for two changes of the same code, one of which is to be reverted."""
    remaining = [name for name in patches if name not in reverted]
    return RevertBlockedError(
        f"{', '.join(remaining)} changed the same code as {', '.join(sorted(reverted))}, or depends on it",
        *sorted(reverted),
        where=file,
        together=remaining,
    )


def _subtract(
    file: str, with_all: bytes | None, applied: bytes | None, without_reverted: bytes | None
) -> bytes | None:
    """Return ``applied`` without the code of the reverted patches; ``without_reverted`` is what the others make.

    ``applied`` may have the code of ``combined_plan`` in another order, if a person edited in between. Raise
    ConflictError unless the result has the lines that the others make.
    """
    try:
        text = undo(file, with_all, applied, without_reverted).text
    except ConflictError:
        text = None
    if text is None or _lines(text) != _lines(without_reverted):
        raise _differing_error(file)
    return text


def _with_applied_wording(
    file: str, applied: bytes | None, text: bytes | None, patches: tuple[str, ...], reverted: frozenset[str]
) -> bytes | None:
    """Return ``text`` with the words of ``applied`` in the comments; raise ConflictError if one would differ."""
    result = with_wording_of(applied, text)
    if any(
        patch_comments(result, name) != patch_comments(applied, name) for name in _kept(patches, reverted)
    ):
        raise _differing_error(file)
    return result


def _differing_error(file: str) -> ConflictError:
    return ConflictError(
        "the loaded patches differ from the applied ones, so one cannot be reverted alone",
        where=file,
        advice="run patchkit revert without a name, then apply the patches that you want, or use the version of "
        "patchkit that applied them",
    )


def _lines(text: bytes | None) -> Counter[bytes]:
    return Counter(line for line in (text or b"").splitlines() if line.strip())


def _patches_in(
    layer: Layer, file: str, reverted: frozenset[str], rebased: bytes | None, after: bytes | None
) -> tuple[str, ...]:
    """Return the patches in a file after the revert, also one that now makes an edit that a reverted one had made."""
    kept = _kept(layer.files[file].patches, reverted)
    commented = commenting_patches(after or b"") - commenting_patches(rebased or b"")
    added = (patch.id for patch in layer.patches if patch.id in commented - reverted)
    return tuple(dict.fromkeys((*kept, *added)))


def _kept(patches: tuple[str, ...], reverted: frozenset[str]) -> tuple[str, ...]:
    return tuple(patch for patch in patches if patch not in reverted)
