"""What the ledger records is taken back; a person's edits stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError
from patchkit.transaction.holding import holding, nameless
from patchkit.transaction.ledger import Record
from patchkit.transaction.store import Store
from patchkit.transaction.unwind import going, unwind
from patchkit.transaction.write import checked, locked, require_settled, write_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.transaction.unwind import AtHand
    from patchkit.tree.tree import CheckoutTree


@dataclass(frozen=True)
class Reverted:
    """What a revert took back: patch ids and files."""

    patches: tuple[str, ...]
    files: tuple[str, ...]


def recorded(tree: CheckoutTree) -> tuple[str, ...]:
    """Return the ids of the patches that the tree's ledger records, in the order in which they came."""
    return tuple(_record(tree, Store(tree.package)).patches)


def recorded_files(tree: CheckoutTree) -> dict[str, tuple[str, ...]]:
    """Return the files that the tree's ledger lists for each patch."""
    found: dict[str, list[str]] = {}
    for file, known in sorted(_record(tree, Store(tree.package)).files.items()):
        for name in known.patches:
            found.setdefault(name, []).append(file)
    return {name: tuple(files) for name, files in found.items()}


def recorded_nameless(tree: CheckoutTree) -> dict[str, tuple[str, str]]:
    """Return what the tree's ledger records and no comment in the code says: by patch, a file and its comment."""
    store = Store(tree.package)
    return nameless(store.read(), tree.read, store.get)


@dataclass(frozen=True)
class Inferred:
    """What a ledger would record, worked out from elsewhere, and its contents by digest."""

    record: Record
    contents: Mapping[str, bytes]


def revert(
    tree: CheckoutTree,
    patches: frozenset[str] | None,
    at_hand: AtHand,
    inferred: Inferred | None = None,
) -> Reverted:
    """Take back ``patches`` (None: all that the ledger records) and what hardens nothing but them.

    What is ``inferred`` stands in for a ledger that records nothing of the tree as it stands.

    A file that stands as apply left it gets its old bytes; one edited since keeps those edits.
    ConflictError, and nothing written, if the two cannot be told apart, if a patch that stays requires one
    that goes, or if the ledger does not record a patch.
    """
    require_settled(tree)
    known = recorded(tree) or (tuple(inferred.record.patches) if inferred else ())
    unknown = (patches or frozenset()).difference(known)
    if unknown:
        raise ConflictError(
            f"no ledger in {tree.package} records {', '.join(sorted(unknown))}: what was applied "
            "elsewhere, or lost its .patchkit folder, is undone with git (git revert, git checkout)."
        )
    if not known:
        return Reverted((), ())
    with locked(tree) as store:
        ledger = store.read()
        held = _record(tree, store)
        record = inferred.record if inferred and not held.patches else held
        contents = inferred.contents if inferred and not held.patches else {}
        gone = frozenset(record.patches) if patches is None else going(record, patches)

        def content(digest: str) -> bytes:
            return contents[digest] if digest in contents else store.get(digest)

        unwound = unwind(record, gone, tree.read, content, at_hand)
        changed = {file: change for file, change in unwound.changes.items() if change[0] != change[1]}
        write_all(
            tree,
            store,
            checked(tree, changed),
            before=ledger,
            after=ledger.with_record(held, unwound.record),
            kept=unwound.kept,
            emptied=unwound.emptied,
        )
    return Reverted(tuple(patch for patch in record.patches if patch in gone), tuple(changed))


def _record(tree: CheckoutTree, store: Store) -> Record:
    return holding(store.read(), tree.read, store.get) or Record()
