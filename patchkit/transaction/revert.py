"""The patches that the code has are taken back, all that were asked for or none; a person's edits stay."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError, PatchkitError
from patchkit.plan.marks import signers
from patchkit.plan.status import State, noted_in
from patchkit.transaction.holding import holding
from patchkit.transaction.ledger import Record
from patchkit.transaction.origins import Origins
from patchkit.transaction.store import Store
from patchkit.transaction.unwind import StuckError, Unwound, going, made_by_hand, unwind
from patchkit.transaction.write import checked, locked, require_settled, write_all

if TYPE_CHECKING:
    from patchkit.plan.planner import Planner
    from patchkit.transaction.origins import Account
    from patchkit.tree.tree import CheckoutTree


@dataclass(frozen=True)
class Reverted:
    """What a revert took back: patch ids and files."""

    patches: tuple[str, ...]
    files: tuple[str, ...]


def recorded(tree: CheckoutTree) -> tuple[str, ...]:
    """Return the ids of the patches that the tree's ledger records, in the order in which they came."""
    store = Store(tree.package)
    record = holding(store.read(), tree.read, store.get) or Record()
    return tuple(record.patches)


def in_code(tree: CheckoutTree, planner: Planner) -> tuple[str, ...]:
    """Return the ids of the patches that patchkit has put into the code, in order of application."""
    return _ordered(Origins(tree, planner).in_code, planner)


def revert(tree: CheckoutTree, patches: frozenset[str] | None, planner: Planner) -> Reverted:
    """Take back ``patches`` (None: all that the code has) and what hardens nothing but them.

    A file that stands as apply left it gets its old bytes; one edited since keeps those edits. What is not in the code
    needs no taking back. ConflictError, and nothing written, if something of a patch would be left, if its code and a
    person's cannot be told apart, if a patch that stays requires one that goes, or if the code is upstream's.
    """
    require_settled(tree)
    origins = Origins(tree, planner)
    named = _in_place(origins, patches)
    if named is not None and not named:
        return Reverted((), ())
    # What is refused is refused before anything is made for a write.
    try:
        planned = _planned(tree, origins, named, planner)
    except ConflictError:
        # What another process has done so far, in the middle of a write, fits nothing.
        store = Store(tree.package)
        if store.read() == origins.ledger and store.journal() is None:
            raise
        with locked(tree):
            planned = _planned(tree, Origins(tree, planner), named, planner)
    with locked(tree) as store:
        ledger = store.read()
        if ledger != origins.ledger:
            planned = _planned(tree, Origins(tree, planner), named, planner)
        account, gone, unwound = planned
        changed = {file: change for file, change in unwound.changes.items() if change[0] != change[1]}
        held = holding(ledger, tree.read, store.get) or Record()
        write_all(
            tree,
            store,
            checked(tree, changed),
            before=ledger,
            after=ledger.with_record(
                account.record if account.record in ledger.records else held, unwound.record
            ),
            kept=unwound.kept,
            emptied=unwound.emptied,
        )
    return Reverted(_ordered(gone, planner), tuple(sorted(changed)))


def _ordered(ids: frozenset[str], planner: Planner) -> tuple[str, ...]:
    return tuple(sorted(ids, key=[*planner.ids, *sorted(ids)].index))


def _in_place(origins: Origins, patches: frozenset[str] | None) -> frozenset[str] | None:
    """Return which of the patches are in the code by patchkit, None for all; ConflictError for upstream's own."""
    ours = origins.in_code
    if ours and (patches is None or patches <= ours):
        return patches
    asked = [s for s in origins.statuses if patches is None or s.patch.id in patches]
    _require_not_upstreams(origins, [s.patch.id for s in asked if s.state is State.UPSTREAM], patches)
    whole = {s.patch.id for s in asked if s.state is State.APPLIED}
    return (ours | whole) & (patches or frozenset())


def _require_not_upstreams(origins: Origins, theirs: list[str], patches: frozenset[str] | None) -> None:
    for name in theirs:
        if name in origins.lost:
            file, comment = origins.lost[name]
            raise ConflictError(
                f"{file}: {name}: its code is there and no comment of a patch is, so nothing tells it from upstream's "
                f"own: put `{comment}` back above it and revert again, or undo it with git."
            )
    if theirs and patches is not None:
        raise ConflictError(f"{', '.join(theirs)}: upstream's own in this tree: git revert takes it out.")


def _planned(
    tree: CheckoutTree, origins: Origins, named: frozenset[str] | None, planner: Planner
) -> tuple[Account, frozenset[str], Unwound]:
    """Return the first account by which all that is asked for can be taken back, what goes, and what that comes to."""
    refusals: list[tuple[bool, PatchkitError]] = []
    try:
        for account in origins:
            try:
                record = account.record
                gone = frozenset(record.patches) if named is None else going(record, named)
                unwound = _unwound(tree, account, gone, planner)
                _require_gone(origins, account, None if named is None else gone, unwound, planner)
            except PatchkitError as error:
                # What a person made by hand, and git does not have, nobody else knows of.
                record = account.record
                if record.by_hand and record in origins.uncommitted:
                    raise
                # Nor of what was ported: an older record has less of it, and would leave some in the code.
                if record.ported & (record.patches.keys() if named is None else named):
                    raise
                refusals.append((account.sure, error))
            else:
                return account, gone, unwound
    except PatchkitError as error:
        if not refusals:
            raise
        refusals.append((True, error))
    raise next((error for sure, error in refusals if sure), refusals[0][1])


def _unwound(tree: CheckoutTree, account: Account, gone: frozenset[str], planner: Planner) -> Unwound:
    """Plan taking patches back from the tree; conflicts of theirs that the account does not know go first."""
    without = {file: text for file, (text, patches) in account.marked.items() if patches <= gone}

    def read(file: str) -> bytes | None:
        return without[file] if file in without else tree.read(file)

    unwound = unwind(account.record, gone, read, account.content, planner)
    alone = {file: (text, text) for file, text in without.items() if file not in unwound.changes}
    changes = {file: (tree.read(file), text) for file, (_, text) in {**unwound.changes, **alone}.items()}
    return replace(unwound, changes=changes)


def _require_gone(
    origins: Origins, account: Account, gone: frozenset[str] | None, unwound: Unwound, planner: Planner
) -> None:
    """Raise ConflictError if something of the patches in ``gone`` (None: of any) is left, or of another is lost."""
    after = {file: text for file, (_, text) in unwound.changes.items()}
    linked = origins.real(after)
    for file, names in sorted(origins.signed.items()):
        if file not in after and origins.real([file]) <= linked:
            continue
        here = signers(after[file] or b"") if file in after else names
        left = sorted(here if gone is None else here & gone)
        strange = [name for name in left if name not in planner.ids]
        if strange:
            raise StuckError(
                f"{file}: {', '.join(strange)}: in the code, but not loaded: name the folder with --patches DIR, or "
                "undo what it did with git revert.",
                *strange,
            )
        for name, edit in noted_in((after[file] if file in after else origins.read(file)) or b""):
            if name in left:
                raise made_by_hand(name, edit)
        if left:
            raise StuckError(
                f"{file}: something of {', '.join(left)} would be left there: its code was moved or edited since, or "
                "the loaded patches do not make it: take that out, or undo it with git revert, and revert again.",
                *left,
            )
    if gone is None or account.sure:
        return
    before = {file: text for file, (text, _) in unwound.changes.items()}
    staying = tuple(name for name in account.record.patches if name not in gone)
    lost = sorted(planner.present(before, staying) - planner.present({**before, **after}, staying))
    if lost:
        name, edit = lost[0]
        raise StuckError(
            f"{name}: {edit} would go as well: revert them together, or undo them with git revert.",
            name,
        )
