"""A change that a person made in place of an edit is recorded as that edit, and what else they wrote stays theirs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from patchkit.errors import TreeError
from patchkit.plan.markers import as_found, blocks_in
from patchkit.transaction.holding import holding
from patchkit.transaction.ledger import AppliedEdit, AppliedFile, AppliedPatch, Record
from patchkit.transaction.store import Store
from patchkit.transaction.swap import digest_of
from patchkit.transaction.write import checked, locked, require_settled, write_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.patchset.patch import Patch
    from patchkit.plan.markers import Block
    from patchkit.plan.status import EditStatus
    from patchkit.tree.tree import CheckoutTree


@dataclass(frozen=True)
class ByHand:
    """What a person made of an edit's conflict: the file before the patches, and their lines in its place."""

    original: bytes
    text: bytes


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


def record_by_hand(
    tree: CheckoutTree, patch: Patch, edit: EditStatus, holds: Callable[[str, bytes], bool]
) -> ByHand | None:
    """Record that a person made an edit, which the caller has seen to be in place; no file is touched.

    Where apply left the conflict, the lines that took its place become patchkit's to take back, if the edit
    ``holds`` in the file with these alone; they are returned. Otherwise what was there before is not known, and the
    edit stays a person's.
    """
    require_settled(tree)
    with locked(tree) as store:
        ledger = store.read()
        record = holding(ledger, tree.read, store.get) or Record()
        asked, stands = _Edit(patch.id, edit), tree.read(edit.file) or b""
        result = _finished(store, record, asked, stands, holds)
        for other in ledger.records if result is None else ():
            # A file of which nothing but the conflict was patchkit's may have none of its lines any more.
            also = _finished(store, other, asked, stands, holds)
            if also is not None and also[1] == stands:
                record, result = other, also
        now, text, found = result or _noted(tree, record, patch, edit)
        after = ledger.with_record(record, now)
        write_all(tree, store, checked(tree, {}), before=ledger, after=after, kept=(text,))
    return found


def _record(tree: CheckoutTree, store: Store) -> Record:
    return holding(store.read(), tree.read, store.get) or Record()


def _noted(tree: CheckoutTree, record: Record, patch: Patch, edit: EditStatus) -> tuple[Record, bytes, None]:
    """Return the record with a note of the edit, and the file's content, which nothing is known to have changed."""
    text = tree.read(edit.file) or b""
    digest = digest_of(text)
    note = AppliedPatch(
        patch.id, patch.title, tuple(patch.requires), tuple(patch.hardens), (), by_hand=(edit.name,)
    )
    noted = {edit.file: AppliedFile(digest, digest, (patch.id,))}
    return record.with_applied(noted, [note], ""), text, None


class _Edit(NamedTuple):
    patch: str
    status: EditStatus


def _finished(
    store: Store, record: Record, edit: _Edit, stands: bytes, holds: Callable[[str, bytes], bool]
) -> tuple[Record, bytes, ByHand] | None:
    """Return the record after the conflict that apply left in a layer is finished, and that file's new content."""
    file, later = edit.status.file, stands
    for level in reversed(range(len(record.layers))):
        layer = record.layers[level]
        known = layer.files.get(file)
        if known is None or known.applied is None or known.original is None:
            continue
        marked, original = store.get(known.applied), store.get(known.original)
        block = next(
            (b for b in blocks_in(marked) if (b.patch, b.edit) == (edit.patch, edit.status.name)), None
        )
        if block is not None:
            text = _in_place(marked, block, later)
            finished = b"".join([*_lines(marked)[: block.start], text, *_lines(marked)[block.end :]])
            if not holds(file, as_found(finished)):
                return None
            files = layer.files | {file: AppliedFile(known.original, digest_of(finished), known.patches)}
            patches = tuple(
                _with_edit(each, edit.status) if each.id == edit.patch else each for each in layer.patches
            )
            layers = list(record.layers)
            layers[level] = msgspec.structs.replace(layer, files=files, patches=patches)
            return Record(tuple(layers)), finished, ByHand(original, text)
        later = original
    return None


def _with_edit(patch: AppliedPatch, edit: EditStatus) -> AppliedPatch:
    made = AppliedEdit(edit.name, edit.file, edit.site)
    return msgspec.structs.replace(
        patch,
        edits=tuple(dict.fromkeys((*patch.edits, made))),
        by_hand=tuple(dict.fromkeys((*patch.by_hand, edit.name))),
    )


def _in_place(marked: bytes, block: Block, later: bytes) -> bytes:
    """Return the lines of a later text that stand where a conflict did."""
    before, after = _lines(marked), _lines(later)
    start, end = 0, len(after)
    for match in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
        if match.a < block.start:
            start = match.b + min(match.size, block.start - match.a)
        if match.a + match.size > block.end:
            end = min(end, match.b + max(0, block.end - match.a))
    return b"".join(after[start:end])


def _lines(text: bytes) -> list[bytes]:
    return text.splitlines(keepends=True)
