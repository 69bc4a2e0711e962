"""What the ledger records is taken back; a person's edits stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError
from patchkit.transaction.merge import going, unwind
from patchkit.transaction.store import Store

if TYPE_CHECKING:
    from patchkit.transaction.merge import Replay
    from patchkit.tree.tree import CheckoutTree

from patchkit.transaction.write import checked_writes, locked, require_settled, write_all


@dataclass(frozen=True)
class Reverted:
    """What a revert took back: patch ids and files."""

    patches: tuple[str, ...]
    files: tuple[str, ...]


def recorded(tree: CheckoutTree) -> tuple[str, ...]:
    """Return the ids of the patches that the tree's ledger records, in the order in which they came."""
    return tuple(Store(tree.package).read().patches)


def revert(tree: CheckoutTree, patches: frozenset[str] | None, replay: Replay) -> Reverted:
    """Take back ``patches`` (None: all that the ledger records) and what hardens nothing but them.

    A file that stands as apply left it gets its old bytes; one edited since keeps those edits.
    ConflictError, and nothing written, if the two cannot be told apart, if a patch that stays requires one
    that goes, or if the ledger does not record a patch.
    """
    require_settled(tree)
    unknown = (patches or frozenset()).difference(recorded(tree))
    if unknown:
        raise ConflictError(
            f"no ledger in {tree.package} records {', '.join(sorted(unknown))}: what was applied "
            "elsewhere, or lost its .patchkit folder, is undone with git (git revert, git checkout)."
        )
    if not recorded(tree):
        return Reverted((), ())
    with locked(tree) as store:
        ledger = store.read()
        gone = frozenset(ledger.patches) if patches is None else going(ledger, patches)
        unwound = unwind(ledger, gone, tree.read, store.get, replay)
        changed = {file: change for file, change in unwound.changes.items() if change[0] != change[1]}
        writes = checked_writes(tree, changed)
        write_all(tree, store, writes, before=ledger, after=unwound.ledger, contents=unwound.contents)
    return Reverted(tuple(patch for patch in ledger.patches if patch in gone), tuple(changed))
