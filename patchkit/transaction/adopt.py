"""Copy the ledger of a checkout to its linked worktree, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.transaction.current import current_record
from patchkit.transaction.ledger import AppliedFile, Ledger, Record
from patchkit.transaction.store import Store
from patchkit.transaction.swap import digest_or_none
from patchkit.transaction.write import check_targets, locked, write_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from patchkit.tree.tree import CheckoutTree


def copy(source: CheckoutTree, target: CheckoutTree) -> None:
    """Replace the ledger of ``target`` by that of ``source``, with the contents that can be read."""
    store = Store(source.package)
    _replace(target, store.read(), store)


def unedited(tree: CheckoutTree) -> dict[str, bytes | None]:
    """Return the contents of the files that were not edited since the ledger's record of them."""
    store = Store(tree.package)
    record = current_record(store.read(), tree.read, store.get) or Record()
    current = {file: tree.read(file) for file in record.files}
    return {
        file: current[file]
        for file, known in record.files.items()
        if digest_or_none(current[file]) == known.applied
    }


def record_rewritten(tree: CheckoutTree, before: Mapping[str, bytes | None]) -> None:
    """Record that files, unedited with the contents ``before``, were then rewritten with patchkit's patches."""
    current = {file: tree.read(file) for file in before}
    changed = {
        file: AppliedFile(digest_or_none(old), digest_or_none(current[file]), ())
        for file, old in before.items()
        if old != current[file]
    }
    if not changed:
        return
    with locked(tree) as store:
        ledger = store.read()
        record = current_record(
            ledger, lambda file: before[file] if file in before else tree.read(file), store.get
        )
        record = record or Record()
        after = ledger.with_record(record, record.with_applied(changed, (), record.layers[-1].digest))
        _write(tree, store, after, (text for file in changed if (text := current[file]) is not None))


def adopted(store: Store, other: CheckoutTree) -> tuple[Ledger, list[bytes]]:
    """Return the ledger of ``other``, a worktree that got a copy, and the contents that ``store`` needs for it."""
    source = Store(other.package)
    after = source.read()
    return after, _contents(source, after.contents - store.read().contents)


def _replace(tree: CheckoutTree, ledger: Ledger, source: Store) -> None:
    if Store(tree.package).read() != ledger:
        with locked(tree) as store:
            _write(tree, store, ledger, _contents(source, ledger.contents))


def _contents(store: Store, digests: Iterable[str]) -> list[bytes]:
    return [store.get(digest) for digest in sorted(digests) if store.has(digest)]


def _write(tree: CheckoutTree, store: Store, after: Ledger, contents: Iterable[bytes]) -> None:
    write_all(tree, store, check_targets(tree, {}), before=store.read(), after=after, kept=tuple(contents))
