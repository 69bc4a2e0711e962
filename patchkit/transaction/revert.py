"""Revert patches, all that were asked for or none, and keep the edits of people."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from patchkit.errors import ConflictError, PatchkitError
from patchkit.plan.marks import signers
from patchkit.plan.status import State, noted_in
from patchkit.transaction.current import current_record
from patchkit.transaction.history import checkout_of
from patchkit.transaction.ledger import Record
from patchkit.transaction.origins import Origins
from patchkit.transaction.ports import ports_in
from patchkit.transaction.store import Store
from patchkit.transaction.unwind import RevertPlan, StuckError, made_by_hand, reverted_with, unwind
from patchkit.transaction.write import check_targets, locked, settled, write_all

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.plan.planner import Planner
    from patchkit.transaction.ledger import Ledger
    from patchkit.transaction.origins import Account
    from patchkit.tree.tree import CheckoutTree, ReadTree


Planned: TypeAlias = "tuple[Account, frozenset[str], RevertPlan]"
"""What the revert is computed from, the patches that it reverts, and its plan."""


@dataclass(frozen=True)
class RevertResult:
    """The patches that were reverted, and the files that changed."""

    patches: tuple[str, ...]
    files: tuple[str, ...]


def recorded(tree: CheckoutTree) -> tuple[str, ...]:
    """Return the ids of the patches in the tree's ledger, in order of application."""
    store = Store(tree.package)
    record = current_record(store.read(), tree.read, store.get) or Record()
    return tuple(record.patches)


def ported(tree: CheckoutTree) -> tuple[str, ...]:
    """Return the names of the ports in git's history, oldest first."""
    checkout = checkout_of(tree.package)
    return () if checkout is None else tuple(dict.fromkeys(port.name for port in ports_in(tree.package)))


def ports_left(tree: CheckoutTree, planner: Planner) -> tuple[str, ...]:
    """Return the names of the ports in git's history whose code is in the tree, oldest first."""
    names = ported(tree)
    if not names:
        return ()
    origins = Origins(tree, planner)
    return tuple(
        name for name in names if name not in origins.in_code and _is_left(tree, origins, name, planner)
    )


def _is_left(tree: CheckoutTree, origins: Origins, name: str, planner: Planner) -> bool:
    try:
        planned = _planned(tree, origins, frozenset({name}), planner)
    except ConflictError:
        return True
    return planned is not None and any(old != new for old, new in planned[2].changes.values())


def in_code(tree: CheckoutTree, planner: Planner) -> tuple[str, ...]:
    """Return the ids of the patches whose code patchkit put into the tree, in order of application."""
    return _ordered(Origins(tree, planner).in_code, planner)


def revert(tree: CheckoutTree, patches: frozenset[str] | None, planner: Planner) -> RevertResult:
    """Revert ``patches`` (None: all in the tree) and the patches that harden only these.

    A file that was not edited since gets its original bytes; in an edited one the edits stay. Patches that are not
    in the tree are skipped. Raise ConflictError, with nothing written, if code of a patch would be left, cannot be
    told from an edit, is upstream's own, or is required by a patch that stays.
    """

    def prepared(read: ReadTree) -> tuple[ReadTree, Ledger, Planned | None]:
        origins = Origins(read, planner)
        return read, origins.ledger, _planned(read, origins, patches, planner)

    # A refusal must not create the ledger's folder, so the first plan is made without the lock.
    read, known, planned = settled(tree, prepared)
    if planned is None:
        return RevertResult((), ())
    with locked(tree) as store:
        ledger = store.read()
        if ledger != known or not read.is_unchanged:
            planned = _planned(tree, Origins(tree, planner), patches, planner)
        if planned is None:
            return RevertResult((), ())
        account, gone, unwound = planned
        changed = {file: change for file, change in unwound.changes.items() if change[0] != change[1]}
        if account.is_of_ports and not changed:
            return RevertResult((), ())
        held = current_record(ledger, tree.read, store.get) or Record()
        write_all(
            tree,
            store,
            check_targets(tree, changed),
            before=ledger,
            # A port in git's history is in no record, so the one of other patches stays.
            after=ledger
            if account.is_of_ports
            else ledger.with_record(
                account.record if account.record in ledger.records else held, unwound.record
            ),
            kept=unwound.kept,
            emptied=unwound.emptied,
        )
    return RevertResult(_ordered(gone, planner), tuple(sorted(changed)))


def _ordered(ids: frozenset[str], planner: Planner) -> tuple[str, ...]:
    return tuple(sorted(ids, key=[*planner.ids, *sorted(ids)].index))


def _in_place(origins: Origins, patches: frozenset[str] | None) -> frozenset[str] | None:
    """Return which of the patches patchkit put into the tree, None for all; upstream's own code is a ConflictError."""
    ours = origins.in_code
    if patches is not None and not patches <= ours:
        ours |= origins.ported
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
                f"{name}: its code has no comment of the patch and may be upstream's own",
                where=file,
                advice=f"put `{comment}` back above the code and revert again, or undo it with git",
            )
    if theirs and patches is not None:
        raise ConflictError(f"{', '.join(theirs)}: upstream's own code in this tree", advice="use git revert")


def _planned(
    tree: CheckoutTree, origins: Origins, patches: frozenset[str] | None, planner: Planner
) -> Planned | None:
    """Plan a revert with the first account with which it is possible; None if no patch is in the tree."""
    named = _in_place(origins, patches)
    if named is not None and not named:
        return None
    refusals: list[tuple[bool, PatchkitError]] = []
    try:
        for account in _accounts(origins, named):
            try:
                record = account.record
                gone = frozenset(record.patches) if named is None else reverted_with(record, named)
                unwound = _unwound(tree, account, gone, planner)
                _require_gone(origins, account, None if named is None else gone, unwound, planner)
            except PatchkitError as error:
                # No other account describes an edit that was made by hand and not committed.
                record = account.record
                if record.by_hand and record in origins.uncommitted:
                    raise
                # Nor a ported change: with an older record, its code would be left.
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


def _accounts(origins: Origins, named: frozenset[str] | None) -> Iterable[Account]:
    """Return the accounts to try. Raise ConflictError for patches and for ports that only git's history has."""
    committed = origins.committed_ports(named) if named else frozenset[str]()
    if not named or not committed:
        return origins
    others = named - committed
    if others:
        raise ConflictError(
            f"{', '.join(sorted(committed))} was ported in an earlier commit, {', '.join(sorted(others))} was not",
            advice=f"revert them one after the other: patchkit revert {' '.join(sorted(committed))}",
        )
    return (origins.of_ports(committed),)


def _unwound(tree: CheckoutTree, account: Account, gone: frozenset[str], planner: Planner) -> RevertPlan:
    """Plan a revert; conflict markers that the account does not record are removed first."""
    without = {file: text for file, (text, patches) in account.marked.items() if patches <= gone}

    def read(file: str) -> bytes | None:
        return without[file] if file in without else tree.read(file)

    unwound = unwind(account.record, gone, read, account.content, planner)
    alone = {file: (text, text) for file, text in without.items() if file not in unwound.changes}
    changes = {file: (tree.read(file), text) for file, (_, text) in {**unwound.changes, **alone}.items()}
    return replace(unwound, changes=changes)


def _require_gone(
    origins: Origins, account: Account, gone: frozenset[str] | None, unwound: RevertPlan, planner: Planner
) -> None:
    """Raise ConflictError if code of the patches in ``gone`` (None: of any) is left, or an edit of another is lost."""
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
                f"{', '.join(strange)}: in the code, but not loaded",
                *strange,
                where=file,
                advice="pass its folder with --patches DIR, or undo it with git revert",
            )
        for name, edit in noted_in((after[file] if file in after else origins.read(file)) or b""):
            if name in left:
                raise made_by_hand(name, edit)
        if left:
            raise StuckError(
                f"code of {', '.join(left)} would be left: it was moved or edited, or the loaded patches differ from "
                "the applied ones",
                *left,
                where=file,
                advice="remove that code, or use the version of patchkit that applied it, or undo it with git revert, "
                "and revert again",
            )
    if gone is None or account.sure:
        return
    before = {file: text for file, (text, _) in unwound.changes.items()}
    staying = tuple(name for name in account.record.patches if name not in gone)
    lost = sorted(planner.present(before, staying) - planner.present({**before, **after}, staying))
    if lost:
        name, edit = lost[0]
        raise StuckError(
            f"{name}: {edit} would be reverted too",
            name,
            advice="revert them together, or use git revert",
        )
