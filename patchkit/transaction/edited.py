"""Tell what a person changed in the code that patches wrote: by the record, whatever layout and comments are now."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import PatchkitError, TreeError
from patchkit.plan.markers import marked_conflicts
from patchkit.plan.record import How, attributed
from patchkit.plan.status import ACCEPTED, BY_HAND, State
from patchkit.transaction.current import committed_content, committed_record, current_or_none
from patchkit.transaction.store import Store
from patchkit.transaction.swap import content_or_none, digest_or_none
from patchkit.tree.source import INVALID, first_line, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from patchkit.plan.record import Record
    from patchkit.plan.status import EditStatus, PatchStatus
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
    before, wrote, there = (_lines(text) for text in (original, written, current))
    codes = SequenceMatcher(None, before, wrote, autojunk=False).get_opcodes()
    own = {line for tag, _, _, start, end in codes if tag != "equal" for line in range(start, end)}
    hunks = SequenceMatcher(None, wrote, there, autojunk=False).get_grouped_opcodes(_AROUND)
    return "".join(
        f"{line}\n"
        for hunk in hunks
        if any(_concerns(code, own) for code in hunk)
        for line in _written(hunk, wrote, there)
    )


def accepting(patch: str, edit: str) -> str:
    """Return what accepts a person's change of an edit, and what takes it back, for messages."""
    return (
        f"patchkit resolve {patch} {edit} --accept accepts the change; to take it back, restore the lines marked -, "
        "for example with git restore -p"
    )


def _lines(text: bytes) -> list[str]:
    return text.decode(errors="replace").replace("\r\n", "\n").split("\n")


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
    """Return the statuses with whose each edit is by the tree's record, and those that a person changed since."""
    record = current_or_none(tree)
    return _with_edited(attributed(statuses, record), record, tree.read, Store(tree.package).get)


def with_edited(tree: CheckoutTree, statuses: Sequence[PatchStatus]) -> tuple[PatchStatus, ...]:
    """Return attributed statuses with the patches whose code a person changed since it was recorded."""
    return _with_edited(statuses, current_or_none(tree), tree.read, Store(tree.package).get)


def without_repetition(tree: CheckoutTree, statuses: Sequence[PatchStatus]) -> tuple[PatchStatus, ...]:
    """Return the statuses with the pending edits that a person only changed, and would get twice, as conflicts."""
    return tuple(map(_not_again, statuses, with_edited(tree, statuses)))


def _not_again(status: PatchStatus, again: PatchStatus) -> PatchStatus:
    edits = tuple(
        replace(now, state=State.CONFLICT)
        if before.state is State.PENDING and now.state is State.EDITED
        else before
        for before, now in zip(status.edits, again.edits, strict=True)
    )
    if edits == status.edits:
        return status
    first = next(edit for edit in edits if edit.state is State.CONFLICT)
    return replace(status, state=State.CONFLICT, edits=edits, reason=first.placed_reason)


def judged_at(tree: GitTree, statuses: Iterable[PatchStatus]) -> tuple[PatchStatus, ...]:
    """Return what ``judged`` does for a commit."""
    record = committed_record(tree)
    return _with_edited(attributed(statuses, record), record, tree.read, committed_content(tree))


class _CodeLine(NamedTuple):
    """A line of code without its layout and comments, and the dotted name of the class or function around it."""

    code: str
    scope: str

    @property
    def is_import(self) -> bool:
        return self.code.startswith(("import ", "from "))


@dataclass(frozen=True)
class _Change:
    """A line that patches wrote in a file and that is no longer there; ``difference`` is that of the whole file."""

    file: str
    line: _CodeLine
    patches: tuple[str, ...]
    difference: str


@dataclass(frozen=True)
class _Passage:
    """Lines of one scope that a write put in place of ``replaced``, the numbers of lines of what was there before."""

    before: tuple[_CodeLine, ...]
    replaced: tuple[int, ...]
    patches: tuple[str, ...]
    size: int


def _with_edited(
    statuses: Sequence[PatchStatus], record: Record, read: Read, content: Content
) -> tuple[PatchStatus, ...]:
    made = {
        (patch.id, edit.name): edit.how
        for layer in record.layers
        if not layer.is_ported
        for patch in layer.patches
        for edit in patch.edits
    }
    changes = {
        (name, edit.name, edit.file): change
        for change in reversed(_changes(record, read, content))
        for name, edit in _concerned(statuses, change, made)
    }
    return tuple(_edited(status, changes) for status in statuses) if changes else tuple(statuses)


def _edited(status: PatchStatus, by_edit: Mapping[tuple[str, str, str], _Change]) -> PatchStatus:
    changes = [by_edit.get((status.patch.id, edit.name, edit.file)) for edit in status.edits]
    if not any(changes):
        return status
    edits = tuple(
        edit if change is None else _changed(status, edit, change)
        for edit, change in zip(status.edits, changes, strict=True)
    )
    if any(edit.state is State.CONFLICT for edit in edits):
        return replace(status, edits=edits)
    first = next(edit for edit in edits if edit.state is State.EDITED)
    return replace(status, state=State.EDITED, edits=edits, reason=first.placed_reason)


def _changed(status: PatchStatus, edit: EditStatus, change: _Change) -> EditStatus:
    number = _first_line(change.difference)
    where = f"line {number}: " if number else ""
    reason = f"{where}a person changed its code: {accepting(status.patch.id, edit.name)}"
    return replace(edit, state=State.EDITED, reason=reason, difference=change.difference)


def _concerned(
    statuses: Iterable[PatchStatus], change: _Change, made: Mapping[tuple[str, str], How]
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
        edit.reason in {ACCEPTED, BY_HAND} or made[name, edit.name] is not How.MADE for name, edit in near
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
        shown = difference(writes[0][0] or b"", writes[-1][1] or b"", current or b"")
        changes += [
            _Change(file, line, passage.patches, shown) for line, passage in _lost_lines(writes, current)
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


def _lost_lines(
    writes: Sequence[tuple[bytes | None, bytes | None, tuple[str, ...]]], current: bytes | None
) -> Iterator[tuple[_CodeLine, _Passage]]:
    """Follow the lines that each write added through the later ones; yield those that a person changed or removed."""
    # Where each write found what the one before it left, and the code is as the last one left it, nothing is lost.
    if all(left == earlier for (_, left, _), (earlier, _, _) in pairwise(writes)) and (
        _code(writes[-1][1]) == _code(current)
    ):
        return
    there: dict[int, _Passage] = {}
    lost: list[tuple[_CodeLine, _Passage, tuple[_CodeLine, ...]]] = []
    last: tuple[_CodeLine, ...] = ()
    for before, after, patches in writes:
        old, new = _code(before), _code(after)
        there = _carried(last, old, there, lost)
        there = _carried(old, new, there, [])
        for tag, start, end, begin, stop in _opcodes(old, new):
            for scope in {line.scope for line in new[begin:stop]} if tag != "equal" else ():
                replaced = tuple(index for index in range(start, end) if old[index].scope == scope)
                written = [index for index in range(begin, stop) if new[index].scope == scope]
                there |= dict.fromkeys(written, _Passage(old, replaced, patches, len(written)))
        last = new
    now = _code(current)
    _carried(last, now, there, lost)
    for line, passage, instead in lost:
        codes = [code_line.code for code_line in instead if code_line.scope == line.scope]
        is_whole = sum(other is passage for _, other, _ in lost) == passage.size
        if not (is_whole and _is_back(passage, codes, now)):
            yield line, passage


def _carried(
    old: tuple[_CodeLine, ...],
    new: tuple[_CodeLine, ...],
    there: dict[int, _Passage],
    lost: list[tuple[_CodeLine, _Passage, tuple[_CodeLine, ...]]],
) -> dict[int, _Passage]:
    """Return the lines by their numbers in ``new``; those that it lacks are added to ``lost``, with what it has."""
    if old == new or not there:
        return there
    moved: dict[int, _Passage] = {}
    for tag, start, end, begin, stop in _opcodes(old, new):
        for index in range(start, end):
            if index in there and tag == "equal":
                moved[begin + index - start] = there[index]
            elif index in there:
                lost.append((old[index], there[index], new[begin:stop]))
    return moved


def _is_back(passage: _Passage, instead: Sequence[str], now: tuple[_CodeLine, ...]) -> bool:
    """Return whether a passage gave way to exactly the lines that it replaced, so that it can be made again."""
    kept = {
        index
        for tag, start, end, _, _ in _opcodes(passage.before, now)
        if tag == "equal"
        for index in range(start, end)
    }
    return instead == [passage.before[index].code for index in passage.replaced] and kept.issuperset(
        passage.replaced
    )


def _opcodes(
    old: tuple[_CodeLine, ...], new: tuple[_CodeLine, ...]
) -> Sequence[tuple[str, int, int, int, int]]:
    before, after = ([line.code for line in lines] for lines in (old, new))
    return SequenceMatcher(None, before, after, autojunk=False).get_opcodes()


def _code(text: bytes | None) -> tuple[_CodeLine, ...]:
    """Return the lines of a file's code as its syntax tree has them; of a file that is not Python, its lines."""
    try:
        code = ast.unparse(parsed(text or b""))
        lines, scopes = code.split("\n"), dict(_scopes(parsed(code), ""))
    except INVALID:
        lines, scopes = _lines(text or b""), {}
    return tuple(
        _CodeLine(line, scopes.get(index, "")) for index, line in enumerate(lines, 1) if line.strip()
    )


def _scopes(node: ast.AST, name: str) -> Iterator[tuple[int, str]]:
    """Yield the numbers of the lines in each class and function with its dotted name, the inner ones last."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):  # No expression contains a definition.
            continue
        inner = name
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = f"{name}.{child.name}" if name else child.name
            yield from ((index, inner) for index in range(first_line(child) + 1, (child.end_lineno or 0) + 1))
        yield from _scopes(child, inner)


def _first_line(shown: str) -> int:
    """Return the number of the first changed line in a difference, in the file as it is; 0 if there is none."""
    if not shown:
        return 0
    head, *rest = shown.splitlines()
    start = int(head.split("+")[1].split(",")[0])
    return start + len(list(takewhile(lambda line: line.startswith(" "), rest)))
