"""A ledger learns of what was done in a linked worktree of its checkout, at once and when it has come here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from patchkit.errors import UnfinishedError
from patchkit.transaction.holding import holding
from patchkit.transaction.ledger import AppliedFile, Journal, Ledger, Record
from patchkit.transaction.store import Store
from patchkit.transaction.swap import digest_or_none
from patchkit.transaction.write import checked, locked, refusing, write_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from patchkit.tree.tree import CheckoutTree


def copy(source: CheckoutTree, target: CheckoutTree) -> None:
    """Give ``target`` the ledger of ``source``, as far as its contents can be read."""
    known = Store(source.package)
    _replace(target, known.read(), known)


def as_left(tree: CheckoutTree) -> dict[str, bytes | None]:
    """Return the bytes of the files that stand as the tree's ledger says that patchkit left them."""
    store = Store(tree.package)
    record = holding(store.read(), tree.read, store.get) or Record()
    stands = {file: tree.read(file) for file in record.files}
    return {
        file: stands[file] for file, k in record.files.items() if digest_or_none(stands[file]) == k.applied
    }


def note_rewritten(tree: CheckoutTree, before: Mapping[str, bytes | None]) -> None:
    """Record that files, which were ``before`` as patchkit left them, were then rewritten with its patches."""
    now = {file: tree.read(file) for file in before}
    changed = {
        file: AppliedFile(digest_or_none(stood), digest_or_none(now[file]), ())
        for file, stood in before.items()
        if stood != now[file]
    }
    if not changed:
        return
    with locked(tree) as store:
        ledger = store.read()
        record = holding(ledger, lambda file: before[file] if file in before else tree.read(file), store.get)
        record = record or Record()
        after = ledger.with_record(record, record.with_applied(changed, (), record.layers[-1].digest))
        _write(tree, store, after, (text for file in changed if (text := now[file]) is not None))


def adopt(
    tree: CheckoutTree, store: Store, other: CheckoutTree, commits: tuple[str, str], move: Callable[[], None]
) -> None:
    """Take over the records of ``other``, a worktree; ``move`` brings ``tree`` from the first commit to the second.

    Everything that can fail is written before ``move``; where that raises, the ledger is what it was, but for
    UnfinishedError, which leaves what recover needs. ``store`` is that of ``tree``, which the caller holds the lock of.
    """
    before, source = store.read(), Store(other.package)
    after, is_there = before, commits[0] == commits[1]
    for record in source.read().records:
        if record not in before.records:
            after = after.with_record(Record(), record)
    with refusing(tree, "nothing was changed; fix the cause and try again"):
        if after == before and is_there:
            return
        try:
            store.begin(Journal({}, after, move=UNSET if is_there else commits))
            for text in _contents(source, after.contents - before.contents):
                store.put(text)
            store.stage(after)
            if not is_there:
                move()
        except UnfinishedError:
            raise
        except BaseException:
            half = f"the ledger is half written; run patchkit apply --continue {tree.root}"
            with refusing(tree, half, UnfinishedError):
                store.unstage()
                store.end()
            raise
    advice = f"everything is committed; run patchkit apply --continue {tree.root}, which writes the ledger"
    with refusing(tree, advice, UnfinishedError):
        store.publish()
        store.end()


def _replace(tree: CheckoutTree, ledger: Ledger, known: Store) -> None:
    if Store(tree.package).read() != ledger:
        with locked(tree) as store:
            _write(tree, store, ledger, _contents(known, ledger.contents))


def _contents(store: Store, digests: Iterable[str]) -> list[bytes]:
    return [store.get(digest) for digest in sorted(digests) if store.holds(digest)]


def _write(tree: CheckoutTree, store: Store, after: Ledger, contents: Iterable[bytes]) -> None:
    write_all(tree, store, checked(tree, {}), before=store.read(), after=after, kept=tuple(contents))
