"""Tell what a person changed in the code that patches wrote: by the record, whatever layout and comments are now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING

from patchkit.errors import PatchkitError, TreeError
from patchkit.plan.markers import marked_conflicts
from patchkit.plan.record import How, Record, attributed, file_of
from patchkit.plan.status import ACCEPTED, BY_HAND, EditStatus, PatchStatus, State
from patchkit.transaction.conflicts import placeholder
from patchkit.transaction.current import (
    committed_content,
    committed_record,
    current_or_none,
    lined_record,
    still_there,
)
from patchkit.transaction.passages import followed, text_lines
from patchkit.transaction.store import Store
from patchkit.transaction.swap import content_or_none, digest_or_none
from patchkit.tree.checkout import Checkout
from patchkit.tree.fork import RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from patchkit.patchset.patch import Patch
    from patchkit.plan.record import AppliedEdit
    from patchkit.transaction.passages import CodeLine
    from patchkit.tree.objects import GitTree
    from patchkit.tree.tree import CheckoutTree

    Read = Callable[[str], bytes | None]
    Content = Callable[[str], bytes]

_AROUND = 1
"""The most unchanged lines that are shown above and below a change."""


def difference(original: bytes | None, written: bytes | None, current: bytes | None) -> str:
    """Return a unified diff of a file, from what patches wrote to what stands there, where it concerns their lines.

    These are the lines that the ``original`` lacks. Return an empty text if they stand there as they were written, or
    if there is no such file.
    """
    if original is None or written is None or current is None:
        return ""
    before, wrote, there = (text_lines(text) for text in (original, written, current))
    codes = SequenceMatcher(None, before, wrote, autojunk=False).get_opcodes()
    own = {line for tag, _, _, start, end in codes if tag != "equal" for line in range(start, end)}
    hunks = SequenceMatcher(None, wrote, there, autojunk=False).get_grouped_opcodes(_AROUND)
    return "".join(
        f"{line}\n"
        for hunk in hunks
        if any(_concerns(code, own) for code in hunk)
        for line in _written(hunk, wrote, there)
    )


def is_lost(current: bytes | None) -> bool:
    """Return whether a file that patches wrote was deleted or emptied."""
    return not (current or b"").strip()


def lost_file(current: bytes | None) -> str:
    """Return what happened to a file that is lost."""
    return f"the file, which patchkit changed, {'does not exist' if current is None else 'is empty'}"


def accepting(patch: Patch, edit: str, *, lost: bool = False) -> str:
    """Return what accepts a person's change of an edit, and what takes it back, for messages.

    Of a port, and of a patch that is not loaded, only the record has edits; ``lost`` is whether the file is.
    """
    is_loaded = patch.title != patch.id
    removing = f"removing {RECORD}/{file_of(patch.id)} accepts the change"
    if lost:
        return f"restore it, for example with git restore; {removing}"
    how = f"patchkit resolve {patch.id} {edit} --accept accepts the change" if is_loaded else removing
    return f"{how}; to take it back, restore the lines marked -, for example with git restore -p"


def _concerns(code: tuple[str, int, int, int, int], own: set[int]) -> bool:
    """Return whether a change is of the patches' own lines, or between two of them."""
    tag, start, end, _, _ = code
    return tag != "equal" and (not own.isdisjoint(range(start, end)) or {start - 1, end} <= own)


def _written(
    hunk: list[tuple[str, int, int, int, int]], before: list[str], after: list[str]
) -> Iterator[str]:
    (_, old, _, new, _), (_, _, old_end, _, new_end) = hunk[0], hunk[-1]
    yield f"@@ -{old + 1},{old_end - old} +{new + 1},{new_end - new} @@"
    for tag, start, end, other, other_end in hunk:
        if tag == "equal":
            yield from (f" {line}" for line in before[start:end])
        else:
            yield from (f"-{line}" for line in before[start:end])
            yield from (f"+{line}" for line in after[other:other_end])


_MISSING = frozenset({State.PENDING, State.CONFLICT})


# ---- the state -----------------------------------------------------------------------------------------------------


def judged(tree: CheckoutTree, statuses: Iterable[PatchStatus]) -> tuple[PatchStatus, ...]:
    """Return the statuses with whose each edit is by the tree's record, and what ``with_edited`` tells."""
    return with_edited(tree, attributed(statuses, lined_record(tree)))


def with_edited(tree: CheckoutTree, statuses: Sequence[PatchStatus]) -> tuple[PatchStatus, ...]:
    """Return attributed statuses with the patches whose code a person changed since it was recorded.

    Ports and patches that are not loaded are added to them, but not a port in files as they are committed: there the
    change is a commit of the fork's own.
    """
    record, changes = _changes_in(tree)
    others = _by_name(record, changes)
    is_committed = _committed(tree)
    for name in record.ported.intersection(others):
        for file in [*filter(is_committed, others[name])]:
            del others[name][file]
    names = {status.patch.id for status in statuses}
    return (
        *_with_edited(statuses, record, changes, is_committed),
        *(
            _of_name(name, by_file.values())
            for name, by_file in sorted(others.items())
            if by_file and name not in names
        ),
    )


def _committed(tree: CheckoutTree) -> Callable[[str], bool]:
    """Return what tells whether a file is as in HEAD."""

    @cache
    def is_committed(file: str) -> bool:
        checkout = Checkout.tracking(tree.package)
        return checkout is not None and checkout.at("HEAD", file) == tree.read(file)

    return is_committed


def edited_names(tree: CheckoutTree) -> frozenset[str]:
    """Return the names of patches and ports whose code a person changed since it was recorded."""
    return frozenset(_by_name(*_changes_in(tree)))


def _by_name(record: Record, changes: Iterable[_Change]) -> dict[str, dict[str, _Change]]:
    """Return the first change in each file, by patch or port, without those that were accepted."""
    by_hand = {(name, file) for (name, _), file in record.manual_files.items() if name not in record.ported}
    first_changes: dict[str, dict[str, _Change]] = {}
    for change in changes:
        # A formatter sorts and joins imports.
        for name in change.patches if not change.line.is_import else ():
            if (name, change.file) not in by_hand:
                first_changes.setdefault(name, {}).setdefault(change.file, change)
    return first_changes


def without_repetition(tree: CheckoutTree, statuses: Sequence[PatchStatus]) -> tuple[PatchStatus, ...]:
    """Return the statuses with the pending edits that a person only changed, and would get twice, as conflicts.

    The reason of each conflict in which a person changed an edit is that.
    """
    return tuple(map(_not_again, statuses, _with_edited(statuses, *_changes_in(tree), _committed(tree))))


def without_replaced(
    tree: CheckoutTree, record: Record, inspected: Callable[[], Sequence[PatchStatus]]
) -> Record:
    """Return a current record without the files that have no line of their patches, and no edit of a person's instead.

    There the code is upstream's own, or the tree has no place for it, by the loaded patches that are ``inspected``.
    """
    lined = lined_record(tree).files
    if record.files.keys() <= lined.keys():
        return record
    statuses = inspected()
    loaded = {status.patch.id for status in statuses}
    edited = {
        (status.patch.id, edit.file)
        for status in judged(tree, statuses)
        for edit in status.edits
        if edit.state is State.EDITED
    }
    layers = (
        layer
        if layer.is_ported
        else layer.with_files(
            {
                file: change
                for file, change in layer.files.items()
                if file in lined
                or any(name not in loaded or (name, file) in edited for name in change.patches)
            }
        )
        for layer in record.layers
    )
    return record.replaced(Record(tuple(layer for layer in layers if layer.files)))


def _not_again(status: PatchStatus, again: PatchStatus) -> PatchStatus:
    edits = tuple(
        replace(now, state=State.CONFLICT)
        if before.state in _MISSING and now.state is State.EDITED
        else before
        for before, now in zip(status.edits, again.edits, strict=False)
    )
    edits += tuple(replace(lost, state=State.CONFLICT) for lost in again.edits[len(edits) :])
    if edits == status.edits:
        return status
    first = next(edit for edit in edits if edit.state is State.CONFLICT)
    return replace(status, state=State.CONFLICT, edits=edits, reason=first.placed_reason)


def judged_at(tree: GitTree, statuses: Iterable[PatchStatus]) -> tuple[PatchStatus, ...]:
    """Return what ``judged`` does for a commit."""
    record, content = committed_record(tree), committed_content(tree)
    lined = still_there(record, tree.read, content, in_lines=True)
    return _with_edited(attributed(statuses, lined), record, _changes(record, tree.read, content))


@dataclass(frozen=True)
class _Change:
    """A line that patches wrote in a file and that is no longer there.

    ``what`` says what a person did to the file, and ``difference`` is that of all of it.
    """

    file: str
    line: CodeLine
    patches: tuple[str, ...]
    what: str
    difference: str
    is_lost: bool


def _changes_in(tree: CheckoutTree) -> tuple[Record, list[_Change]]:
    record = current_or_none(tree)
    return record, _changes(record, tree.read, Store(tree.package).get)


def _of_name(name: str, changes: Iterable[_Change]) -> PatchStatus:
    """Return the status of which only the record knows, with what was changed first in each file."""
    status = PatchStatus(placeholder(name), State.EDITED, ())
    edits = tuple(
        _changed(
            status,
            EditStatus(change.line.scope or "module", change.file, change.line.scope, State.EDITED),
            change,
        )
        for change in changes
    )
    return replace(status, edits=edits, reason=edits[0].placed_reason)


def _with_edited(
    statuses: Sequence[PatchStatus],
    record: Record,
    changes: Sequence[_Change],
    is_committed: Callable[[str], bool] = lambda file: True,
) -> tuple[PatchStatus, ...]:
    made = {
        (patch.id, edit.name): edit
        for layer in record.layers
        if not layer.is_ported
        for patch in layer.patches
        for edit in patch.edits
    }
    by_edit = {
        (name, edit.name, edit.file): change
        for change in reversed(changes)
        for name, edit in _concerned(statuses, change, made)
    }
    told = {
        (status.patch.id, edit.name)
        for status in statuses
        for edit in status.edits
        if edit.state is not State.NOT_APPLICABLE
    }
    # As a person left the file, the tree may not have the place of an edit, so that no status tells of it.
    lost = {
        (name, edit.name, edit.file): change
        for change in reversed(changes)
        for (name, _), edit in made.items()
        if (name, edit.name) not in told and edit.how is How.MADE
        if edit.file == change.file and name in change.patches and not change.line.is_import
        if change.is_lost or not is_committed(change.file)
    }
    return tuple(_edited(status, by_edit, lost) for status in statuses) if changes else tuple(statuses)


def _edited(
    status: PatchStatus,
    by_edit: Mapping[tuple[str, str, str], _Change],
    lost: Mapping[tuple[str, str, str], _Change],
) -> PatchStatus:
    changes = [by_edit.get((status.patch.id, edit.name, edit.file)) for edit in status.edits]
    # Nor can it be accepted there.
    untold = replace(status, patch=placeholder(status.patch.id))
    others = [
        _changed(untold, EditStatus(edit, file, change.line.scope, State.EDITED), change)
        for (name, edit, file), change in lost.items()
        if name == status.patch.id
    ]
    if not (any(changes) or others):
        return status
    edits = tuple(
        edit if change is None else _changed(status, edit, change)
        for edit, change in zip(status.edits, changes, strict=True)
    )
    edits = (*edits, *others)
    if any(edit.state is State.CONFLICT for edit in edits):
        return replace(status, edits=edits)
    first = next(edit for edit in edits if edit.state is State.EDITED)
    return replace(status, state=State.EDITED, edits=edits, reason=first.placed_reason)


def _changed(status: PatchStatus, edit: EditStatus, change: _Change) -> EditStatus:
    advice = accepting(status.patch, edit.name, lost=change.is_lost)
    return replace(edit, state=State.EDITED, reason=f"{change.what}: {advice}", difference=change.difference)


def _concerned(
    statuses: Iterable[PatchStatus], change: _Change, made: Mapping[tuple[str, str], AppliedEdit]
) -> Iterator[tuple[str, EditStatus]]:
    """Yield the edits of which a changed line is: those nearest around it, and of these the missing ones if any is.

    An import is of an edit that is missing for it, and else nobody's: a formatter sorts and joins imports.
    """
    own = [
        (status.patch.id, edit)
        for status in statuses
        if status.patch.id in change.patches
        for edit in status.edits
        if edit.file == change.file and (status.patch.id, edit.name) in made
    ]
    if change.line.is_import:
        yield from (pair for pair in own if pair[1].state in _MISSING)
        return
    around = [
        pair for pair in own if not pair[1].site or f"{change.line.scope}.".startswith(f"{pair[1].site}.")
    ]
    depth = max((len(edit.site) for _, edit in around), default=0)
    near = [pair for pair in around if len(pair[1].site) == depth] or own
    lost = [pair for pair in near if pair[1].state in _MISSING]
    is_accepted = any(
        edit.reason in {ACCEPTED, BY_HAND} or made[name, edit.name].how is not How.MADE for name, edit in near
    )
    if lost or not is_accepted:
        yield from lost or (pair for pair in near if pair[1].state is State.APPLIED)


def _changes(record: Record, read: Read, content: Content) -> list[_Change]:
    """Return the lines that patches wrote and that a person changed; none of a file of which a content is lost."""
    changes: list[_Change] = []
    for file in record.files:
        current = read(file)
        if file in record.forked or _is_as_written(record, file, digest_or_none(current)):
            continue
        try:
            writes = _writes(record, file, content)
            # What a person writes between conflict markers is recorded when it is done.
            if any(marked_conflicts(text or b"") for text in (current, *(after for _, after, _ in writes))):
                continue
        except PatchkitError:
            continue
        lost = is_lost(current)
        shown = difference(writes[0][0] or b"", writes[-1][1] or b"", current or b"")
        number = _first_line(shown)
        what = (
            lost_file(current) if lost else f"{f'line {number}: ' if number else ''}a person changed its code"
        )
        changes += [
            _Change(file, lost_line.line, lost_line.passage.patches, what, shown, is_lost=lost)
            for lost_line in followed(writes, current).lost
        ]
    return changes


def _is_as_written(record: Record, file: str, current: str | None) -> bool:
    """Return whether nobody changed a file after a write of it, also not before the next one."""
    entries = [layer.files[file] for layer in record.layers if file in layer.files]
    contents = [*(entry.original for entry in entries[1:]), current]
    return [entry.applied for entry in entries] == contents


def _writes(
    record: Record, file: str, content: Content
) -> list[tuple[bytes | None, bytes | None, tuple[str, ...]]]:
    """Return what each write of a file found and left, and its patches. Raise TreeError if a content is lost.

    Several writes of one layer are taken as one if what lay between them is lost.
    """
    writes: list[tuple[bytes | None, bytes | None, tuple[str, ...]]] = []
    for layer in record.layers:
        change = layer.files.get(file)
        if change is None:
            continue
        whole = (
            content_or_none(change.original, content),
            content_or_none(change.applied, content),
            change.patches,
        )
        single = next(
            (
                pairs
                for name, pairs in record.writes
                if name == file
                and (pairs[0].original, pairs[-1].applied) == (change.original, change.applied)
            ),
            (),
        )
        try:
            writes += [
                (
                    content_or_none(pair.original, content),
                    content_or_none(pair.applied, content),
                    pair.patches,
                )
                for pair in single
            ] or [whole]
        except TreeError:
            writes.append(whole)
    return writes


def _first_line(shown: str) -> int:
    """Return the number of the first changed line in a difference, in the file as it is; 0 if there is none."""
    if not shown:
        return 0
    head, *rest = shown.splitlines()
    start = int(head.split("+")[1].split(",")[0])
    return start + len(list(takewhile(lambda line: line.startswith(" "), rest)))
