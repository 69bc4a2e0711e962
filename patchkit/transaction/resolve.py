"""A change that a person made in place of an edit is recorded as that edit, and what else they wrote stays theirs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from patchkit.errors import ConflictError, TreeError
from patchkit.plan.markers import HalfError, as_found, blocks_in, indent_of, newline_of
from patchkit.transaction.holding import holding
from patchkit.transaction.ledger import AppliedEdit, AppliedFile, AppliedPatch, Record
from patchkit.transaction.merge import merge
from patchkit.transaction.store import Store
from patchkit.transaction.swap import digest_of
from patchkit.transaction.unfinished import unfinished
from patchkit.transaction.write import checked, locked, require_settled, write_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchkit.patchset.patch import Patch
    from patchkit.plan.markers import Block
    from patchkit.plan.status import EditStatus
    from patchkit.transaction.ledger import Ledger
    from patchkit.tree.tree import CheckoutTree

_MARKERS = (b"<<<<<<< ", b"||||||| ", b"=======", b">>>>>>> ")


@dataclass(frozen=True)
class ByHand:
    """What a person made of an edit's conflict: the file before the patches, what was found, and their lines for it.

    These begin at ``line`` of the file, from 1; ``is_whole`` tells whether they alone bring the edit about.
    """

    original: bytes
    found: bytes
    text: bytes
    line: int
    is_whole: bool


Holds = Callable[[str, bytes], bool]
"""Tells whether an edit is in place in a file with a content."""


class Word(NamedTuple):
    """A person's word for an edit: the comment that says so, and the line, from 1, that it is for."""

    note: str
    line: int


class _Edit(NamedTuple):
    """An edit, its file as it stands, and what tells whether it is in place; without that nobody asks."""

    patch: str
    status: EditStatus
    stands: bytes
    holds: Holds | None


class _Hunk(NamedTuple):
    """Lines ``start`` to ``end`` of a text, and what took their place."""

    start: int
    end: int
    lines: tuple[bytes, ...]


class _Finished(NamedTuple):
    """The record after a conflict is finished, that file's content in its layer, and what a person made of it."""

    record: Record
    content: bytes
    made: ByHand


def by_hand(tree: CheckoutTree) -> frozenset[tuple[str, str]]:
    """Return the edits, as patch id and name, that the ledger records as made by a person; none if it is damaged."""
    store = Store(tree.package)
    with suppress(TreeError):
        if any(record.by_hand for record in store.read().records):
            return _record(tree, store).by_hand
    return frozenset()


def made(tree: CheckoutTree) -> frozenset[tuple[str, str]]:
    """Return the edits that the ledger records as made by patchkit itself."""
    record = _record(tree, Store(tree.package))
    return frozenset((p.id, e.name) for p in record.patches.values() for e in p.edits) - record.by_hand


def written_for(tree: CheckoutTree, patch: Patch, edit: EditStatus, holds: Holds | None) -> ByHand | None:
    """Return what a person wrote where apply had left the conflict of an edit; None where it left none."""
    store = Store(tree.package)
    asked = _Edit(patch.id, edit, tree.read(edit.file) or b"", holds)
    found = _lookup(store, store.read(), _record(tree, store), asked)
    return found[1].made if found is not None else None


def record_by_hand(
    tree: CheckoutTree, patch: Patch, edit: EditStatus, holds: Holds | None, word: Word
) -> ByHand | None:
    """Record that a person made an edit, and leave the comment of their ``word`` above their lines.

    Where apply left the conflict, the lines that took its place become patchkit's to take back, and they are returned;
    so do those of their other changes in the file without which the edit does not hold, and no others. Otherwise
    what was there before is not known: the edit stays a person's, and of one that is not seen to be in place, without
    ``holds``, the comment alone is patchkit's.
    """
    require_settled(tree)
    with locked(tree) as store:
        ledger = store.read()
        held, stands = _record(tree, store), tree.read(edit.file) or b""
        old, done = _lookup(store, ledger, held, _Edit(patch.id, edit, stands, holds)) or (held, None)
        written = _above_line(stands, done.made.line if done else word.line, word.note)
        file = AppliedFile(digest_of(stands), digest_of(written), (patch.id,))
        note = _noted(patch, edit, mine=holds is None and done is None)
        now = (done.record if done else held).with_applied({edit.file: file}, [note], "")
        changes = checked(tree, {edit.file: (stands, written)})
        kept = (stands, written, *([done.content] if done else []))
        write_all(tree, store, changes, before=ledger, after=ledger.with_record(old, now), kept=kept)
    return done.made if done else None


def conflict_of(tree: CheckoutTree, patch: str, edit: str) -> str | None:
    """Return the file in which a conflict of that name was left, whether it stands or not; None for none."""
    store = Store(tree.package)
    for record in store.read().records:
        for layer in record.layers:
            for file, known in layer.files.items():
                text = b"" if known.applied is None else store.get(known.applied)
                if any((block.patch, block.edit) == (patch, edit) for block in blocks_in(text)):
                    return file
    return None


def record_ported(tree: CheckoutTree, patch: str, edit: EditStatus) -> bool:
    """Record that a person finished the conflict of a port: their lines become what revert takes back with it.

    False, and nothing recorded, where the ledger knows no such conflict any more.
    """
    require_settled(tree)
    with locked(tree) as store:
        ledger = store.read()
        stands = tree.read(edit.file) or b""
        found = _lookup(store, ledger, _record(tree, store), _Edit(patch, edit, stands, None))
        if found is not None:
            old, done = found
            after = ledger.with_record(old, done.record)
            write_all(tree, store, checked(tree, {}), before=ledger, after=after, kept=(done.content,))
    return found is not None


def give_up(tree: CheckoutTree, patch: str, edit: str) -> str:
    """Put what was found back in place of the conflict of an edit, and return the file.

    ConflictError, and nothing written, if none of its markers stands in the tree.
    """
    require_settled(tree)
    with locked(tree) as store:
        ledger = store.read()
        record = _record(tree, store)
        for level, layer in reversed(list(enumerate(record.layers))):
            for file, known in layer.files.items():
                if known.applied is None or known.original is None:
                    continue
                marked, stands = store.get(known.applied), tree.read(file) or b""
                block = next((b for b in blocks_in(marked) if (b.patch, b.edit) == (patch, edit)), None)
                bounds = _standing(marked, block, stands) if block is not None else None
                if block is None or bounds is None:
                    continue
                back = _lines(marked)[block.start + 1 : block.start + 1 + block.found]
                left = as_found(marked, [block])
                text = _replaced(stands, [_Hunk(*bounds, tuple(back))])
                files = {**layer.files, file: AppliedFile(known.original, digest_of(left), known.patches)}
                if not blocks_in(left) and not layer.made(file):
                    # Nothing of the patches but an import is there any more.
                    with suppress(ConflictError):
                        text = merge(file, left, text, store.get(known.original)).text or text
                        del files[file]
                layers = (*record.layers[:level], layer.with_files(files), *record.layers[level + 1 :])
                after = ledger.with_record(record, Record(tuple(each for each in layers if each.files)))
                changes = checked(tree, {file: (stands, text)})
                write_all(tree, store, changes, before=ledger, after=after, kept=(left,))
                return file
        # What somebody committed with its markers is in no ledger of a clone.
        for file, blocks in unfinished(tree).items():
            block = next((b for b in blocks if (b.patch, b.edit) == (patch, edit)), None)
            if block is not None:
                stands = tree.read(file) or b""
                changes = checked(tree, {file: (stands, as_found(stands, [block]))})
                write_all(tree, store, changes, before=ledger, after=ledger)
                return file
    raise ConflictError(
        f"no conflict of {patch} {edit} stands in {tree.package}: patchkit status {tree.root} shows what does."
    )


def _standing(marked: bytes, block: Block, stands: bytes) -> tuple[int, int] | None:
    """Return which lines of a file are a conflict, also one of whose markers some were taken out; None if all were."""
    start, end = _bounds(marked, block, stands)
    lines = _lines(stands)
    markers = [at for at in range(start, end) if lines[at].startswith(_MARKERS)]
    if not markers:
        return None
    first, last = markers[0], markers[-1]
    opened, closed = lines[first].startswith(_MARKERS[0]), lines[last].startswith(_MARKERS[-1])
    return first if opened else start, last + 1 if closed else end


def _record(tree: CheckoutTree, store: Store) -> Record:
    return holding(store.read(), tree.read, store.get) or Record()


def _noted(patch: Patch, edit: EditStatus, *, mine: bool) -> AppliedPatch:
    """Return a note that a person made an edit; of what is ``mine``, what was there before is known."""
    made = (AppliedEdit(edit.name, edit.file, edit.site),) if mine else ()
    return AppliedPatch(
        patch.id, patch.title, tuple(patch.requires), tuple(patch.hardens), made, by_hand=(edit.name,)
    )


def _lookup(store: Store, ledger: Ledger, held: Record, edit: _Edit) -> tuple[Record, _Finished] | None:
    """Return the record in which apply left the conflict of an edit, and what comes of it once that is finished."""
    found = _finished(store, held, edit)
    if found is not None:
        return held, found
    for other in ledger.records:
        # A file of which nothing but the conflict was patchkit's may have none of its lines any more.
        also = _finished(store, other, edit)
        if also is not None and also.content == edit.stands:
            return other, also
    return None


def _finished(store: Store, record: Record, edit: _Edit) -> _Finished | None:
    """Return what comes of the record once the conflict that apply left in a layer is finished."""
    file, later = edit.status.file, edit.stands
    for level in reversed(range(len(record.layers))):
        known = record.layers[level].files.get(file)
        if known is None or known.applied is None or known.original is None:
            continue
        marked, original = store.get(known.applied), store.get(known.original)
        block = next(
            (b for b in blocks_in(marked) if (b.patch, b.edit) == (edit.patch, edit.status.name)), None
        )
        if block is not None:
            content, made = _made(marked, block, later, original, edit)
            return _Finished(_with_edit(record, level, edit, content), content, made)
        if edit.patch in known.patches and _holds(edit, marked) and not _holds(edit, original):
            # It came with what was recorded for another conflict.
            made = ByHand(original, b"", b"", 1, is_whole=False)
            return _Finished(_with_edit(record, level, edit, marked), marked, made)
        later = original
    return None


def _made(marked: bytes, block: Block, later: bytes, original: bytes, edit: _Edit) -> tuple[bytes, ByHand]:
    """Return a text with what is in place of its conflict in a later one, and what else the edit needs of that."""
    start, end = _bounds(marked, block, later)
    text = tuple(_lines(later)[start:end])
    own = _Hunk(block.start, block.end, text)

    def is_made(hunks: Sequence[_Hunk]) -> bool:
        return _holds(edit, _replaced(marked, [own, *hunks]))

    needed = _least(_hunks(marked, block, later, (start, end)), is_made) if edit.holds is not None else []
    found = b"".join(_lines(marked)[block.start + 1 : block.start + 1 + block.found])
    blank = next((number for number, line in enumerate(text) if line.strip()), 0)
    line = _bounds(marked, block, edit.stands)[0] + blank + 1
    made = ByHand(original, found, b"".join(text), line, is_whole=not needed)
    return _replaced(marked, [own, *needed]), made


def _holds(edit: _Edit, text: bytes) -> bool:
    try:
        return edit.holds is not None and edit.holds(edit.status.file, as_found(text))
    except HalfError:
        return False


def _least(hunks: Sequence[_Hunk], holds: Callable[[Sequence[_Hunk]], bool]) -> list[_Hunk]:
    """Return the fewest of the changes, which come nearest first, with which it holds; none where it never does."""
    chosen: list[_Hunk] = []
    ahead = list(hunks)
    while not holds(chosen):
        if not ahead or not holds([*chosen, *ahead]):
            return []
        low, high = 1, len(ahead)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if holds([*chosen, *ahead[:middle]]) else (middle + 1, high)
        chosen.append(ahead[low - 1])
        ahead = ahead[: low - 1]
    return chosen


def _hunks(marked: bytes, block: Block, later: bytes, bounds: tuple[int, int]) -> list[_Hunk]:
    """Return what a later text has otherwise than one with a conflict around that, the nearest to it first."""
    before, after = _lines(marked), _lines(later)
    parts = (
        (0, before[: block.start], after[: bounds[0]]),
        (block.end, before[block.end :], after[bounds[1] :]),
    )
    hunks = [
        _Hunk(offset + code[1], offset + code[2], tuple(new[code[3] : code[4]]))
        for offset, old, new in parts
        for code in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if code[0] != "equal"
    ]
    return sorted(hunks, key=lambda hunk: max(block.start - hunk.end, hunk.start - block.end))


def _replaced(text: bytes, hunks: Iterable[_Hunk]) -> bytes:
    lines = _lines(text)
    for hunk in sorted(hunks, reverse=True):
        lines[hunk.start : hunk.end] = hunk.lines
    return b"".join(lines)


def _above_line(text: bytes, line: int, note: str) -> bytes:
    """Return a text with a comment above a line, from 1, or at its end."""
    lines, newline = _lines(text), newline_of(text)
    if line > len(lines):
        gap = newline if lines and not lines[-1].endswith((b"\n", b"\r")) else b""
        return b"".join([*lines, gap, note.encode(), newline])
    lines.insert(line - 1, indent_of(lines[line - 1]) + note.encode() + newline)
    return b"".join(lines)


def _with_edit(record: Record, level: int, edit: _Edit, content: bytes) -> Record:
    """Return the record with an edit that a person made, and the content that its file has with it in a layer."""
    layer, status = record.layers[level], edit.status
    made = AppliedEdit(status.name, status.file, status.site)
    known = layer.files[status.file]
    files = layer.files | {status.file: msgspec.structs.replace(known, applied=digest_of(content))}
    patches = tuple(
        msgspec.structs.replace(
            patch,
            edits=tuple(dict.fromkeys((*patch.edits, made))),
            by_hand=tuple(dict.fromkeys((*patch.by_hand, status.name))),
        )
        if patch.id == edit.patch
        else patch
        for patch in layer.patches
    )
    layers = list(record.layers)
    layers[level] = msgspec.structs.replace(layer, files=files, patches=patches)
    return Record(tuple(layers))


def _bounds(marked: bytes, block: Block, later: bytes) -> tuple[int, int]:
    """Return which lines of a later text, from 0, stand where a conflict did."""
    before, after = _lines(marked), _lines(later)
    # What a person kept of it says nothing of where it began and ended.
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
