"""Revert patches, restoring the code before them by the record or from git, and commit that."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import ConflictError, TreeError, UsageError
from patchkit.plan.planner import Planner
from patchkit.series.commit import require_committable, require_committed
from patchkit.series.message import revert_message
from patchkit.series.plumbing import git_output
from patchkit.series.worktree import linked_worktree
from patchkit.transaction import revert as reverting
from patchkit.transaction.candidates import Candidates
from patchkit.transaction.revert import RevertResult
from patchkit.transaction.revert_plan import RevertBlockedError
from patchkit.transaction.uncommitted import uncommitted_comments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.errors import PatchkitError
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree


class PartialRevert(NamedTuple):
    """What was reverted, the error for each patch that was not, and the commit of ``commit_revert``."""

    reverted: RevertResult
    not_reverted: Mapping[str, PatchkitError]
    commit: str = ""


def revert(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> RevertResult:
    """Revert ``ids`` (default: all patches in the code), keeping changes that a person made since.

    A group denotes those of its patches that patchkit applied to the code. Raise ConflictError, with nothing written,
    if the code before a patch is unknown or a person's changes cannot be distinguished from the patch's.
    """
    planner = Planner(tree, patches)
    selected = frozenset(_selected(tree, patches, planner, ids))
    try:
        return reverting.revert(tree, selected if ids else None, planner)
    except RevertBlockedError as error:
        if not error.together:
            raise
        raise reverting.advised(tree, error, selected, planner) from None


def revert_what_can_be(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> PartialRevert:
    """Revert those of the patches that can be reverted, each completely, and return the reason for each other one.

    Raise ConflictError if the tree has none of them.
    """
    planner = Planner(tree, patches)
    selected = _selected(tree, patches, planner, ids)
    try:
        return PartialRevert(reverting.revert(tree, frozenset(selected) if ids else None, planner), {})
    except ConflictError as error:
        conflict = error
        order = (reverting.in_code if ids else reverting.reverted_without_names)(tree, planner)
        if not order:
            raise
    blocked = () if not isinstance(conflict, RevertBlockedError) or conflict.together else conflict.patches
    results: list[RevertResult] = []
    reverted: set[str] = set()
    remaining = [name for name in reversed(order) if not ids or name in selected]
    while True:
        reasons: dict[str, PatchkitError] = {}
        for name in remaining:
            if name in reverted:
                continue
            try:
                results.append(reverting.revert(tree, frozenset([name]), planner))
            except (ConflictError, UsageError) as error:
                reasons[name] = conflict if name in blocked else error
            else:
                reverted.update(results[-1].patches)
        if not reasons or len(reasons) == len(remaining):
            break
        remaining = list(reasons)
    files = dict.fromkeys(file for result in results for file in result.files)
    return PartialRevert(
        RevertResult(tuple(name for name in order if name in reverted), tuple(files)), reasons
    )


def commit_revert(
    tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = (), *, keep_going: bool = False
) -> PartialRevert:
    """Revert patches as ``revert`` does, or with ``keep_going`` those that can be, in one commit.

    Branch, index, files and record are changed only after the commit has been made. Raise TreeError if the files have
    uncommitted changes or git cannot commit now, and RefusedCommitError if a hook rejects the commit.
    """
    require_committable(tree)
    head = git_output(tree.root, "rev-parse", "HEAD")
    _require_committed_patches(tree, patches, ids)
    with linked_worktree(tree, "patchkit revert --commit", head) as worktree:
        done = (
            revert_what_can_be(worktree.tree, patches, ids)
            if keep_going
            else PartialRevert(revert(worktree.tree, patches, ids), {})
        )
        files = done.reverted.files
        if files:
            require_committed(tree, {file: (tree.read(file), worktree.tree.read(file)) for file in files})
            titles = {patch.id: patch.title for patch in patches}
            reverted = {name: titles.get(name, "") for name in done.reverted.patches}
            commit = worktree.commit(files, revert_message(reverted, patches.settings.subject_prefix))
            done = done._replace(commit=commit)
    return done


def _require_committed_patches(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str]) -> None:
    """Raise TreeError if a patch to revert has comments in a file and not in HEAD, or is a port without a commit."""
    planner = Planner(tree, patches)
    candidates = Candidates(tree, planner)
    names = uncommitted_comments(tree, candidates.traces)
    ports = {name: {name} for name, is_committed in candidates.ports_in_code().items() if not is_committed}
    named = set(_selected(tree, patches, planner, ids))
    where = [place for place, names in {**names, **ports}.items() if (names & named if ids else names)]
    if where:
        raise TreeError(
            "applied patches are not committed",
            where=", ".join(sorted(where)),
            advice="leave out --commit, or commit them with git first",
        )


def remaining_ports(tree: CheckoutTree, patches: PatchSet) -> dict[str, bool]:
    """Return the ports whose code is in the tree, each with whether it is committed.

    ``revert`` reverts a committed one only by name, and leaves another one if it conflicts.
    """
    return Candidates(tree, Planner(tree, patches)).ports_in_code()


def _selected(
    tree: CheckoutTree, patches: PatchSet, planner: Planner, names: Sequence[str]
) -> tuple[str, ...]:
    groups = [name for name in names if name not in patches.ids and name in patches]
    if not groups:
        return tuple(names)
    in_code = reverting.in_code(tree, planner)
    members = {patch.id for name in groups for patch in patches.group(name)}.intersection(in_code)
    return (*(name for name in names if name not in groups), *members)
