"""Revert the given patches, all or none, and keep the edits of people."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from patchkit.errors import ConflictError, PatchkitError, TreeError
from patchkit.plan.comments import SIGNS, commenting_patches, runtime_line
from patchkit.plan.record import Record
from patchkit.plan.status import State, noted_in
from patchkit.transaction.candidates import Candidates
from patchkit.transaction.current import current_record
from patchkit.transaction.ports import ports_in
from patchkit.transaction.revert_plan import (
    RevertBlockedError,
    RevertPlan,
    manual_edit_error,
    plan_revert,
    require_removable,
)
from patchkit.transaction.write import locked, read_consistently, write_all
from patchkit.tree.checkout import Checkout
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.plan.planner import Planner
    from patchkit.transaction.candidates import CandidateRecord
    from patchkit.tree.tree import CheckoutTree, Contents, ReadTree


Planned: TypeAlias = "tuple[CandidateRecord, frozenset[str], RevertPlan]"
"""The record that a revert is computed from, the patches that it reverts, and its plan."""


@dataclass(frozen=True)
class RevertResult:
    """The patches that were reverted, and the files that changed."""

    patches: tuple[str, ...]
    files: tuple[str, ...]


def recorded(tree: CheckoutTree) -> tuple[str, ...]:
    """Return the ids of the patches and ports in the tree's record."""
    return tuple(current_record(tree).patches)


def recorded_ports(tree: CheckoutTree) -> tuple[str, ...]:
    """Return the names of the ports in the tree's record."""
    return tuple(sorted(current_record(tree).ported))


def ported(tree: CheckoutTree) -> tuple[str, ...]:
    """Return the names of the ports in git's history, oldest first."""
    checkout = Checkout.tracking(tree.package)
    return () if checkout is None else tuple(dict.fromkeys(port.name for port in ports_in(tree.package)))


def in_code(tree: CheckoutTree, planner: Planner) -> tuple[str, ...]:
    """Return the ids of the patches that patchkit applied to the tree's code, in order of application."""
    return _in_order(Candidates(tree, planner).in_code, planner)


def reverted_without_names(tree: CheckoutTree, planner: Planner) -> tuple[str, ...]:
    """Return the ids of the patches in the tree's code and of the ports in it that are not committed."""
    candidates = Candidates(tree, planner)
    ports = candidates.ports_in_code()
    committed = (name for name, is_committed in ports.items() if is_committed)
    return _in_order(candidates.in_code.union(ports).difference(committed), planner)


def revert(tree: CheckoutTree, patches: frozenset[str] | None, planner: Planner) -> RevertResult:
    """Revert ``patches`` (None: all in the tree).

    A file that was not edited since gets its original bytes; in an edited one the edits are kept. Patches that are not
    in the tree are skipped. Raise ConflictError, with nothing written, if code of a patch would remain, cannot be
    distinguished from an edit, is upstream's own, or is required by a patch that is not reverted.
    """

    def prepared(read: ReadTree) -> tuple[ReadTree, Candidates, tuple[Planned, ...]]:
        candidates = Candidates(read, planner)
        return read, candidates, _steps(read, candidates, patches, planner)

    # A revert that is refused must not create patchkit's own folder, so the first plan is made without the lock.
    read, candidates, steps = read_consistently(tree, prepared)
    if not steps:
        return RevertResult((), ())
    with locked(tree) as store:
        if not read.is_unchanged:
            candidates = Candidates(tree, planner)
            steps = _steps(tree, candidates, patches, planner)
        if not steps:
            return RevertResult((), ())
        changes = _combined(plan for _, _, plan in steps)
        changed = {file: change for file, change in changes.items() if change[0] != change[1]}
        record = candidates.record
        for step in steps:
            record = record_after(record, step, candidates.not_loaded.keys())
        kept = tuple(text for _, _, plan in steps for text in plan.kept)
        write_all(tree, store, changed, record, kept=kept)
    names = frozenset[str]().union(*(reverted for _, reverted, _ in steps))
    return RevertResult(_in_order(names, planner), tuple(sorted(changed)))


def advised(
    tree: CheckoutTree, error: RevertBlockedError, patches: frozenset[str], planner: Planner
) -> RevertBlockedError:
    """Return the error of a revert with the command that reverts ``patches`` together with others, if there is one.

    Otherwise the reason why they cannot be reverted together is added.
    """
    names, deeper = patches, error
    while deeper.together and not deeper.together <= names:
        names |= deeper.together
        try:
            _steps(tree, Candidates(tree, planner), names, planner)
        except RevertBlockedError as another:
            deeper = another
        except ConflictError as another:
            deeper = RevertBlockedError(another.what, where=another.where, advice=another.advice)
        else:
            command = f"patchkit revert {' '.join(_in_order(names, planner))}"
            return RevertBlockedError(
                error.what, *error.patches, where=error.where, advice=f"revert them together: {command}"
            )
    where = f"{deeper.where}: " if deeper.where else ""
    return RevertBlockedError(
        error.what,
        *error.patches,
        where=error.where,
        reasons=[f"nor can they be reverted together: {where}{deeper.what}"],
        advice=deeper.advice or "use git revert",
    )


def _combined(plans: Iterable[RevertPlan]) -> dict[str, tuple[bytes | None, bytes | None]]:
    """Return each file's bytes before the first and after the last of several plans."""
    combined: dict[str, tuple[bytes | None, bytes | None]] = {}
    for plan in plans:
        for file, (before, after) in plan.changes.items():
            combined[file] = (combined[file][0] if file in combined else before, after)
    return combined


def record_after(record: Record, step: Planned, not_loaded: Iterable[str]) -> Record:
    """Return the record after one step of a revert, which leaves the patches that are ``not_loaded``."""
    candidate, reverted, plan = step
    # A port in git's history is in no record.
    if candidate.is_of_ports:
        return record
    old, new = candidate.record, plan.record
    if candidate.is_recorded:
        others = [layer for layer in record.layers if not {p.id for p in layer.patches} <= old.patches.keys()]
        return record.replaced(Record((*others, *new.layers)))
    ports = record.of_ports(record.ported - reverted - new.ported).layers
    return record.replaced(Record((*ports, *new.layers))).with_patches_of(record, not_loaded)


def _in_order(ids: frozenset[str], planner: Planner) -> tuple[str, ...]:
    return tuple(sorted(ids, key=[*planner.ids, *sorted(ids)].index))


def _selected(candidates: Candidates, patches: frozenset[str] | None) -> frozenset[str] | None:
    """Return which of the patches patchkit applied, None for all. Raise ConflictError for code of upstream's own."""
    in_code = candidates.in_code
    if patches is not None and not patches <= in_code:
        in_code |= candidates.ported
    if in_code and (patches is None or patches <= in_code):
        return patches
    selected = [s for s in candidates.statuses if patches is None or s.patch.id in patches]
    upstream = [s.patch.id for s in selected if s.state is State.UPSTREAM]
    unknown = [s.patch.id for s in selected if s.state is State.UNKNOWN]
    applied = {s.patch.id for s in selected if s.state is State.APPLIED}
    if upstream and patches is not None:
        raise ConflictError(
            f"{', '.join(upstream)}: upstream's own code in this tree", advice="use git revert"
        )
    if unknown and patches is not None:
        raise ConflictError(
            f"{', '.join(unknown)}: neither a comment, a record nor a call of the runtime shows that patchkit made it",
            advice="use git revert",
        )
    return (in_code | applied) & (applied if patches is None else patches)


def _steps(
    tree: CheckoutTree, candidates: Candidates, patches: frozenset[str] | None, planner: Planner
) -> tuple[Planned, ...]:
    """Return the plans of a revert, each to be made after the ones before it; none if nothing is to be reverted.

    Without ``patches``, each port that is not committed is reverted after the patches, unless it conflicts.
    """
    planned = step_of(tree, candidates, patches, planner)
    steps = () if planned is None else (planned,)
    if patches is None:
        done = frozenset[str]() if planned is None else planned[1]
        ports = _planned_ports(tree, candidates.uncommitted_ports, done, steps, planner)
        steps = steps if ports is None else (*steps, ports)
    # What was ported may be in a stash, and can be reverted when it is back.
    return tuple(
        (candidate, reverted, plan)
        for candidate, reverted, plan in steps
        if any(old != new for old, new in plan.changes.values())
        or not (candidate.is_of_ports or reverted <= candidate.record.ported)
    )


def _planned_ports(
    tree: CheckoutTree,
    candidate: CandidateRecord,
    done: frozenset[str],
    steps: tuple[Planned, ...],
    planner: Planner,
) -> Planned | None:
    """Plan the revert of those ports of a record that can be reverted after ``steps``; None if none can."""
    earlier = _combined(plan for _, _, plan in steps)
    read = OverlayTree(tree, {file: after for file, (_, after) in earlier.items()}).read
    planned: Planned | None = None
    names = frozenset[str]()
    for name in reversed([name for name in candidate.record.patches if name not in done]):
        with suppress(PatchkitError):
            plan = plan_revert(candidate.record, names | {name}, read, candidate.content, planner)
            before = {} if planned is None else planned[2].changes
            if any(
                new != (before[file][1] if file in before else old)
                for file, (old, new) in plan.changes.items()
            ):
                names |= {name}
                planned = candidate, names, plan
    return planned


def step_of(
    tree: CheckoutTree, candidates: Candidates, patches: frozenset[str] | None, planner: Planner
) -> Planned | None:
    """Plan a revert with the first candidate with which it is possible; None if no patch is in the tree."""
    named = _selected(candidates, patches)
    if named is not None and not named:
        if patches is None:
            _require_no_calls({file: tree.read(file) for file in tree.containing(*SIGNS)})
        return None
    errors: list[tuple[bool, PatchkitError]] = []
    try:
        for candidate in _candidates(candidates, named):
            record = candidate.record
            if errors and named is None and candidates.not_loaded:
                break  # Their code would remain.
            committed = candidates.committed_ports_in(record) if named is None else frozenset[str]()
            if committed and committed == record.patches.keys():
                continue
            try:
                if named is not None:
                    require_removable(record, named, candidates.not_loaded)
                reverted = frozenset(record.patches) - committed if named is None else named
                try:
                    plan = _plan_with(tree, candidate, reverted, planner)
                except PatchkitError:
                    reverted -= record.ported
                    if named is not None or not reverted or reverted == record.patches.keys():
                        raise
                    # A port that conflicts stays, beside the patches and the other ports.
                    plan = _plan_with(tree, candidate, reverted, planner)
                _require_removed(candidates, candidate, None if named is None else reverted, plan, planner)
            except PatchkitError as error:
                # No other candidate has an edit that was made by hand, unless a clone lacks what was not committed.
                if record.manual_edits and candidate.is_recorded and not isinstance(error, TreeError):
                    raise
                # A record may lack a patch that was committed separately.
                needed = candidates.traced if named is None else named
                is_complete = needed <= record.patches.keys()
                # Nor a ported change: with an older record, its code would remain.
                ports = record.ported & (record.patches.keys() - committed if named is None else named)
                if ports and (named is not None or is_complete):
                    raise
                # Without its contents a record says less than git's history.
                is_answer = candidate.is_unedited and is_complete and not isinstance(error, TreeError)
                errors.append((is_answer, error))
            else:
                return candidate, reverted, plan
    except PatchkitError as error:
        if not errors:
            raise
        errors.append((isinstance(error, ConflictError), error))
    if not errors:
        return None
    raise next((error for is_answer, error in errors if is_answer), errors[0][1])


def _candidates(candidates: Candidates, named: frozenset[str] | None) -> Iterable[CandidateRecord]:
    """Return the candidates to try. Raise ConflictError for patches and for ports that only git's history has."""
    committed = candidates.committed_ports(named) if named else frozenset[str]()
    if not named or not committed:
        return candidates.of(named)
    others = named - committed
    if others:
        raise ConflictError(
            f"{', '.join(sorted(committed))} was ported in an earlier commit, {', '.join(sorted(others))} was not",
            advice=f"revert them one after the other: patchkit revert {' '.join(sorted(committed))}",
        )
    return (candidates.of_ports(committed),)


def _is_as_before(after: Contents, originals: Contents, candidates: Candidates) -> bool:
    """Return whether a revert leaves each original as it was, and other files as they are."""
    return originals.keys() <= after.keys() and all(
        text == (originals[file] if file in originals else candidates.read(file))
        for file, text in after.items()
    )


def _plan_with(
    tree: CheckoutTree, candidate: CandidateRecord, reverted: frozenset[str], planner: Planner
) -> RevertPlan:
    """Plan a revert; conflict markers that the candidate does not record are removed first."""
    without = {
        file: text for file, (text, patches) in candidate.committed_conflicts.items() if patches <= reverted
    }
    without_markers = OverlayTree(tree, without)
    plan = plan_revert(candidate.record, reverted, without_markers.read, candidate.content, planner)
    unchanged = {file: (text, text) for file, text in without.items() if file not in plan.changes}
    changes = {file: (tree.read(file), text) for file, (_, text) in {**plan.changes, **unchanged}.items()}
    return replace(plan, changes=changes)


def _require_no_calls(contents: Contents) -> None:
    """Raise ConflictError if a file imports the runtime, which only patchkit's code does."""
    for file, text in sorted(contents.items()):
        if line := runtime_line(text):
            raise ConflictError(
                "the file still imports patchkit's runtime: code that calls it was copied, moved or edited, or its "
                "patch is not loaded",
                where=f"{file}:{line}",
                advice="remove the code that calls it, pass the folder of its patches with --patches DIR, or undo it "
                "with git",
            )


def _require_removed(
    candidates: Candidates,
    candidate: CandidateRecord,
    reverted: frozenset[str] | None,
    plan: RevertPlan,
    planner: Planner,
) -> None:
    """Raise ConflictError if code of the patches in ``reverted`` (None: of any) remains, or another loses an edit."""
    after = {file: text for file, (_, text) in plan.changes.items()}
    changed_paths = candidates.real_paths(after)
    for file, names in sorted(candidates.traces.items()):
        if file not in after and candidates.real_paths([file]) <= changed_paths:
            continue
        commented = commenting_patches(after[file] or b"") if file in after else names
        remaining = sorted(commented if reverted is None else commented & reverted)
        not_loaded = [name for name in remaining if name not in planner.ids]
        if not_loaded:
            raise RevertBlockedError(
                f"{', '.join(not_loaded)}: in the code, but not loaded",
                *not_loaded,
                where=file,
                advice="pass its folder with --patches DIR, or undo it with git revert",
            )
        for name, edit in noted_in((after[file] if file in after else candidates.read(file)) or b""):
            if name in remaining:
                raise manual_edit_error(name, edit, file)
        for (name, edit), place in candidate.record.manual_files.items():
            if place == file and name in remaining:
                raise manual_edit_error(name, edit, file)
        if remaining:
            raise RevertBlockedError(
                f"code of {', '.join(remaining)} would be left: it was moved or edited, or the loaded patches differ "
                "from the applied ones",
                *remaining,
                where=file,
                advice="remove that code, or use the version of patchkit that applied it, or undo it with git revert, "
                "and revert again",
            )
    untold = candidates.untold if reverted is None else candidates.untold & reverted
    if untold and not _is_as_before(after, candidate.originals, candidates):
        ids = tuple(sorted(untold))
        left = sorted(planner.present(after, ids) - planner.present(candidate.originals, ids))
        if left:
            name, edit = left[0]
            raise RevertBlockedError(
                f"{edit} of {name} would still be in place: it has no comment, and was moved or edited",
                name,
                advice="remove it by hand or undo it with git, and revert again",
            )
    if reverted is None:
        _require_no_calls(
            {file: text for file, text in after.items() if text != candidate.originals.get(file)}
        )
    if reverted is None or candidate.is_unedited:
        return
    before = {file: text for file, (text, _) in plan.changes.items()}
    not_reverted = tuple(name for name in candidate.record.patches if name not in reverted)

    def lost(names: tuple[str, ...]) -> list[tuple[str, str]]:
        return sorted(planner.present(before, names) - planner.present({**before, **after}, names))

    try:
        also_reverted = lost(not_reverted)
    except TreeError:
        # In a file that cannot be read, as with the conflict markers of a merge, nothing is reverted.
        changed = {file for file, text in before.items() if after[file] != text}
        sharing = {
            name
            for layer in candidate.record.layers
            for file in changed & layer.files.keys()
            for name in layer.files[file].patches
        }
        also_reverted = lost(tuple(name for name in not_reverted if name in sharing))
    if also_reverted:
        name, edit = also_reverted[0]
        raise RevertBlockedError(
            f"{name}: {edit} would be reverted too",
            name,
            together=[name],
        )
