"""Record the code that a person wrote in place of an edit, and keep their other changes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from patchkit.errors import ConflictError, TreeError
from patchkit.plan.markers import IncompleteMarkersError, indent_of, marked_conflicts, without_markers
from patchkit.plan.record import AppliedEdit, AppliedFile, AppliedPatch, How, Record
from patchkit.transaction.conflicts import conflicts_in
from patchkit.transaction.current import current_or_none, current_record, lined_record
from patchkit.transaction.store import Store
from patchkit.transaction.swap import concurrent_change_error, content_or_none, digest_of
from patchkit.transaction.write import (
    locked,
    require_no_pending_write,
    write_all,
)
from patchkit.tree.text import newline_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from patchkit.patchset.patch import Patch
    from patchkit.plan.markers import MarkedConflict
    from patchkit.plan.status import EditStatus
    from patchkit.tree.tree import CheckoutTree, ReadTree

_MARKERS = (b"<<<<<<< ", b"||||||| ", b"=======", b">>>>>>> ")


class ManualEdit(NamedTuple):
    """How a person resolved an edit's conflict: the original file, the code that was ``found``, and their lines for it.

    The lines start at ``line`` of the file, from 1; ``is_whole`` is whether they alone are the edit.
    """

    original: bytes
    found: bytes
    text: bytes
    line: int
    is_whole: bool


EditCheck = Callable[[str, bytes], bool]
"""Return whether an edit is in place, given a file and its content."""


class Note(NamedTuple):
    """The comment that records an edit as made by a person, and the line, from 1, to write it above."""

    text: str
    line: int


class _Edit(NamedTuple):
    """An edit, its file's current content, and the check whether it is in place, if it is to be checked."""

    patch: str
    status: EditStatus
    current: bytes
    check: EditCheck | None


class _Replacement(NamedTuple):
    """Lines ``start`` to ``end`` of a text, and the lines that replace them."""

    start: int
    end: int
    lines: tuple[bytes, ...]


class _ResolvedRecord(NamedTuple):
    """The record after a conflict is resolved, the file's content in its layer, and the person's edit."""

    record: Record
    content: bytes
    manual_edit: ManualEdit


def manual_edits(tree: CheckoutTree) -> frozenset[tuple[str, str]]:
    """Return the edits that the record has as made by a person, as (patch id, name); none if it is damaged."""
    return current_or_none(tree).manual_edits


def made_by_patchkit(tree: CheckoutTree) -> frozenset[tuple[str, str]]:
    """Return the edits that the record has as made by patchkit."""
    record = lined_record(tree)
    return record.edits - record.manual_edits


def unrecorded_edits(tree: CheckoutTree) -> tuple[tuple[str, str, str], ...]:
    """Return the edits whose conflict markers a person replaced by other code than before, not yet recorded.

    Each is given by patch id, edit name and file. Return none if the record is damaged.
    """
    with suppress(TreeError):
        record = current_record(tree)
        replaced = tuple(_replaced_markers(tree, Store(tree.package), record))
        left = (
            {(b.patch, b.edit) for blocks in conflicts_in(tree).values() for b in blocks}
            if replaced
            else set()
        )
        return tuple(
            dict.fromkeys(edit_found for edit_found in replaced if edit_found[:2] not in record.edits | left)
        )
    return ()


def _replaced_markers(tree: CheckoutTree, store: Store, record: Record) -> Iterator[tuple[str, str, str]]:
    """Yield the conflicts of a record for which a file has neither the markers nor the code from before them."""
    for layer in record.layers:
        for file, change in layer.files.items():
            current = tree.read(file)
            # Few files were changed since, so that few contents are read.
            if (
                current is None
                or change.applied is None
                or digest_of(current) in (change.applied, change.original)
            ):
                continue
            marked = store.get(change.applied)
            for block in marked_conflicts(marked):
                start, end = _bounds(marked, block, current)
                if tuple(_lines(current)[start:end]) != _found_in(marked, block):
                    yield block.patch, block.edit, file


def manual_edit_for(
    tree: CheckoutTree, patch: Patch, edit: EditStatus, check: EditCheck | None
) -> ManualEdit | None:
    """Return what a person wrote in place of an edit's conflict markers, or None if apply wrote none."""
    wanted = _Edit(patch.id, edit, tree.read(edit.file) or b"", check)
    resolved = _resolved_in(Store(tree.package), current_record(tree), wanted)
    return resolved.manual_edit if resolved is not None else None


def record_manual_edit(
    tree: ReadTree, patch: Patch, edit: EditStatus, check: EditCheck | None, note: Note
) -> ManualEdit | None:
    """Record that a person made an edit, and write the comment ``note`` above their lines.

    Where apply had written conflict markers, the lines in their place can be reverted, and are returned; so can the
    fewest of the person's other changes in the file that the edit needs. Otherwise the original is not known: the
    edit cannot be reverted, and if it is not checked (``check`` is None), only the comment can. Raise TreeError if a
    file was changed since it was read.
    """
    require_no_pending_write(tree)
    with locked(tree) as store:
        record, current = current_record(tree), tree.read(edit.file) or b""
        if not tree.is_unchanged:
            raise concurrent_change_error(tree.package)
        resolved = _resolved_in(store, record, _Edit(patch.id, edit, current, check))
        commented = _with_comment(current, resolved.manual_edit.line if resolved else note.line, note.text)
        file = AppliedFile(digest_of(current), digest_of(commented), (patch.id,))
        how = How.ACCEPTED if check is None else How.FOUND
        edits = () if resolved else (AppliedEdit(edit.name, edit.file, how),)
        entry = AppliedPatch(patch.id, tuple(patch.requires), edits, form=patch.form)
        new = (resolved.record if resolved else record).with_applied({edit.file: file}, [entry])
        contents = (current, commented, *([resolved.content] if resolved else []))
        write_all(tree, store, {edit.file: (current, commented)}, new, kept=contents)
    return resolved.manual_edit if resolved else None


def conflict_of(tree: CheckoutTree, patch: str, edit: str) -> str | None:
    """Return the file in which apply wrote markers for this conflict, also if they were removed, or None."""
    store = Store(tree.package)
    for layer in current_record(tree).layers:
        for file, change in layer.files.items():
            if _block_of(content_or_none(change.applied, store.get) or b"", patch, edit) is not None:
                return file
    return None


def record_ported(tree: ReadTree, patch: str, edit: EditStatus) -> bool:
    """Record that a person resolved a conflict of a port: a revert of the port removes their lines too.

    Return False, with nothing recorded, if the record no longer has that conflict. Raise TreeError if a file was
    changed since it was read.
    """
    require_no_pending_write(tree)
    with locked(tree) as store:
        current = tree.read(edit.file) or b""
        if not tree.is_unchanged:
            raise concurrent_change_error(tree.package)
        resolved = _resolved_in(store, current_record(tree), _Edit(patch, edit, current, None))
        if resolved is not None:
            write_all(tree, store, {}, resolved.record, kept=(resolved.content,))
    return resolved is not None


def give_up(tree: CheckoutTree, patch: str, edit: str) -> str:
    """Replace an edit's conflict markers by the code found there before, and return the file.

    Raise ConflictError, with nothing written, if there are no markers of it.
    """
    require_no_pending_write(tree)
    with locked(tree) as store:
        record = current_record(tree)
        for level, layer in reversed(list(enumerate(record.layers))):
            for file, change in layer.files.items():
                if change.applied is None or change.original is None:
                    continue
                with_markers, current = store.get(change.applied), tree.read(file) or b""
                block = _block_of(with_markers, patch, edit)
                bounds = _conflict_lines(with_markers, block, current) if block is not None else None
                if block is None or bounds is None:
                    continue
                remaining = without_markers(with_markers, [block])
                text = _replaced(current, [_Replacement(*bounds, _found_in(with_markers, block))])
                files = {
                    **layer.files,
                    file: AppliedFile(change.original, digest_of(remaining), change.patches),
                }
                if not marked_conflicts(remaining) and not layer.edits_in(file):
                    from patchkit.transaction.undo import undo

                    # Only imports of the patches can remain.
                    with suppress(ConflictError):
                        text = undo(file, remaining, text, store.get(change.original)).text or text
                        del files[file]
                layers = (*record.layers[:level], layer.with_files(files), *record.layers[level + 1 :])
                after = record.replaced(Record(tuple(layer for layer in layers if layer.files)))
                write_all(tree, store, {file: (current, text)}, after, kept=(remaining,))
                return file
        # A tree without a record can have markers too.
        for file in conflicts_in(tree):
            current = tree.read(file) or b""
            block = _block_of(current, patch, edit)
            if block is not None:
                write_all(tree, store, {file: (current, without_markers(current, [block]))}, record)
                return file
    is_unrecorded = any(unrecorded[:2] == (patch, edit) for unrecorded in unrecorded_edits(tree))
    raise ConflictError(
        f"{tree.package} has no conflict markers of {patch} {edit}",
        advice=f"patchkit resolve --accept {patch} {edit} records the code in their place, and patchkit revert {patch} "
        "then restores the original"
        if is_unrecorded
        else f"patchkit status {tree.argument} lists the conflicts",
    )


def _block_of(text: bytes, patch: str, edit: str) -> MarkedConflict | None:
    """Return an edit's conflict in a text."""
    return next((b for b in marked_conflicts(text) if (b.patch, b.edit) == (patch, edit)), None)


def _found_in(marked: bytes, block: MarkedConflict) -> tuple[bytes, ...]:
    """Return the lines that a conflict has as those that were found."""
    return tuple(_lines(marked)[block.start + 1 : block.start + 1 + block.found])


def _conflict_lines(marked: bytes, block: MarkedConflict, current: bytes) -> tuple[int, int] | None:
    """Return the lines of a conflict in a file, also if some of its markers were removed; None if all were."""
    start, end = _bounds(marked, block, current)
    lines = _lines(current)
    markers = [index for index in range(start, end) if lines[index].startswith(_MARKERS)]
    if not markers:
        return None
    first, last = markers[0], markers[-1]
    opened, closed = lines[first].startswith(_MARKERS[0]), lines[last].startswith(_MARKERS[-1])
    return first if opened else start, last + 1 if closed else end


def _resolved_in(store: Store, record: Record, edit: _Edit) -> _ResolvedRecord | None:
    """Return the result of resolving an edit's conflict in a record, or None if the record does not have it."""
    file, current = edit.status.file, edit.current
    for level in reversed(range(len(record.layers))):
        change = record.layers[level].files.get(file)
        if change is None or change.applied is None or change.original is None:
            continue
        marked, original = store.get(change.applied), store.get(change.original)
        block = _block_of(marked, edit.patch, edit.status.name)
        if block is not None:
            content, manual_edit = _resolved_text(marked, block, current, original, edit)
            return _ResolvedRecord(_with_edit(record, level, edit, content), content, manual_edit)
        if edit.patch in change.patches and _is_in_place(edit, marked) and not _is_in_place(edit, original):
            # The edit was recorded with another conflict.
            manual_edit = ManualEdit(original, b"", b"", 1, is_whole=False)
            return _ResolvedRecord(_with_edit(record, level, edit, marked), marked, manual_edit)
        current = original
    return None


def _resolved_text(
    marked: bytes, block: MarkedConflict, current: bytes, original: bytes, edit: _Edit
) -> tuple[bytes, ManualEdit]:
    """Return a text with its conflict replaced as in ``current`` and the other changes needed, and the edit."""
    start, end = _bounds(marked, block, current)
    text = tuple(_lines(current)[start:end])
    person_hunk = _Replacement(block.start, block.end, text)

    def is_complete(hunks: Sequence[_Replacement]) -> bool:
        return _is_in_place(edit, _replaced(marked, [person_hunk, *hunks]))

    needed = (
        _fewest_hunks(_hunks(marked, block, current, (start, end)), is_complete)
        if edit.check is not None
        else []
    )
    replaced = b"".join(_found_in(marked, block))
    blank = next((number for number, line in enumerate(text) if line.strip()), 0)
    line = _bounds(marked, block, edit.current)[0] + blank + 1
    manual_edit = ManualEdit(original, replaced, b"".join(text), line, is_whole=not needed)
    return _replaced(marked, [person_hunk, *needed]), manual_edit


def _is_in_place(edit: _Edit, text: bytes) -> bool:
    try:
        return edit.check is not None and edit.check(edit.status.file, without_markers(text))
    except IncompleteMarkersError:
        return False


def _fewest_hunks(
    hunks: Sequence[_Replacement], is_complete: Callable[[Sequence[_Replacement]], bool]
) -> list[_Replacement]:
    """Return the fewest of the changes, given nearest first, with which the edit is in place, or none."""
    chosen: list[_Replacement] = []
    remaining = list(hunks)
    while not is_complete(chosen):
        if not remaining or not is_complete([*chosen, *remaining]):
            return []
        low, high = 1, len(remaining)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if is_complete([*chosen, *remaining[:middle]]) else (middle + 1, high)
        chosen.append(remaining[low - 1])
        remaining = remaining[: low - 1]
    return chosen


def _hunks(
    marked: bytes, block: MarkedConflict, current: bytes, bounds: tuple[int, int]
) -> list[_Replacement]:
    """Return the differences of ``current`` outside of a conflict, the nearest to the conflict first."""
    before, after = _lines(marked), _lines(current)
    parts = (
        (0, before[: block.start], after[: bounds[0]]),
        (block.end, before[block.end :], after[bounds[1] :]),
    )
    hunks = [
        _Replacement(offset + code[1], offset + code[2], tuple(new[code[3] : code[4]]))
        for offset, old, new in parts
        for code in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if code[0] != "equal"
    ]
    return sorted(hunks, key=lambda hunk: max(block.start - hunk.end, hunk.start - block.end))


def _replaced(text: bytes, hunks: Iterable[_Replacement]) -> bytes:
    lines = _lines(text)
    for hunk in sorted(hunks, reverse=True):
        lines[hunk.start : hunk.end] = hunk.lines
    return b"".join(lines)


def _with_comment(text: bytes, line: int, comment: str) -> bytes:
    """Return a text with a comment above a line, counted from 1, or at its end."""
    lines, newline = _lines(text), newline_of(text)
    if line > len(lines):
        end = newline if lines and not lines[-1].endswith((b"\n", b"\r")) else b""
        return b"".join([*lines, end, comment.encode(), newline])
    lines.insert(line - 1, indent_of(lines[line - 1]) + comment.encode() + newline)
    return b"".join(lines)


def _with_edit(record: Record, level: int, edit: _Edit, content: bytes) -> Record:
    """Return the record with an edit that a person made, and its file's content in a layer."""
    layer, status = record.layers[level], edit.status
    how = How.ACCEPTED if edit.check is None and not layer.is_ported else How.BY_HAND
    applied = AppliedEdit(status.name, status.file, how)
    change = layer.files[status.file]
    files = layer.files | {status.file: msgspec.structs.replace(change, applied=digest_of(content))}
    patches = tuple(
        msgspec.structs.replace(
            patch,
            edits=(
                *(e for e in patch.edits if (e.name, e.file) != (applied.name, applied.file)),
                applied,
            ),
        )
        if patch.id == edit.patch
        else patch
        for patch in layer.patches
    )
    layers = list(record.layers)
    layers[level] = msgspec.structs.replace(layer, files=files, patches=patches)
    return record.replaced(Record(tuple(layers)))


def _bounds(marked: bytes, block: MarkedConflict, current: bytes) -> tuple[int, int]:
    """Return the lines of ``current``, from 0, that replaced a conflict."""
    before, after = _lines(marked), _lines(current)
    # Lines of the conflict itself must not count as matches.
    before[block.start : block.end] = [b""] * (block.end - block.start)
    start, end = 0, len(after)
    for match in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
        if match.a < block.start:
            start = match.b + min(match.size, block.start - match.a)
        if match.a + match.size > block.end:
            end = min(end, match.b + max(0, block.end - match.a))
    return start, end


def _lines(text: bytes) -> list[bytes]:
    return text.splitlines(keepends=True)
