"""Apply patches and commit each on the current branch, verified before it moves if that is asked."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from patchkit.commands.apply import describe_committing, describe_recording, recorded_resolutions
from patchkit.commands.verify import criteria_of, verify
from patchkit.errors import ConflictError
from patchkit.plan.fitting import fitting_plan
from patchkit.plan.planner import Planner
from patchkit.plan.refusal import require_fitting
from patchkit.series.commit import commit as committing
from patchkit.series.commit import prepare
from patchkit.transaction.conflicts import read_without_conflicts, with_unrecorded
from patchkit.transaction.origins import origin
from patchkit.transaction.renewal import older_forms
from patchkit.transaction.resolve import unrecorded_edits
from patchkit.verify.result import UnverifiedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.series.commit import CommitResult, PreparedCommit
    from patchkit.tree.tree import CheckoutTree, ReadTree
    from patchkit.verify.result import Verdict


def commit(
    tree: CheckoutTree,
    patches: PatchSet,
    ids: Sequence[str] = (),
    *,
    keep_going: bool = False,
    runtime: str = "",
    verifying: bool = False,
) -> CommitResult:
    """Apply patches as ``apply`` does, with one commit for each patch on the current branch.

    Branch, index, files and record are changed only after all commits have been made and, with ``verifying``, after
    every check passed on them. Raise TreeError if the files have uncommitted changes or git cannot commit now,
    RefusedCommitError if a hook rejects a commit, and UnverifiedError if a check failed.
    """
    requested, runtime = patches.requested(ids), runtime or patches.settings.runtime

    def prepared(read: ReadTree) -> PreparedCommit:
        older = sorted(older_forms(read, patches))
        if older:
            raise ConflictError(
                f"{', '.join(older)}: the tree has an older form",
                advice="run patchkit apply, which replaces it, and commit that first",
            )
        planner = Planner(read, patches, runtime)
        planning = partial(planner.plan, ids)
        planned, unrecorded = fitting_plan(lambda without: planning(without=without)), unrecorded_edits(read)
        planned = replace(planned, patches=with_unrecorded(planned.patches, unrecorded))
        closest = partial(planning, try_closest_shape=True)
        known = recorded_resolutions(read, closest) if planned.left_out else ()
        if not keep_going:
            offer = describe_committing(known, planned.patches) if known else ""
            require_fitting(planned, requested, describe_recording(planned.patches, unrecorded) or offer)
        found = prepare(read, planner.combined_plan(planned, origin(read, planner)))
        edits = tuple((patch, edit) for patch, edit, _ in unrecorded)
        return replace(found, applied=replace(found.applied, resolved_elsewhere=known, unrecorded=edits))

    found = read_without_conflicts(tree, prepared)
    if not verifying:
        return committing(tree, found, patches, runtime)
    verdicts: list[Verdict] = []

    def check(made: CheckoutTree) -> None:
        verdicts.append(verify(made, patches, criteria_of(tree)))
        if not verdicts[0].passed:
            raise UnverifiedError(verdicts[0], found.plan)

    return replace(committing(tree, found, patches, runtime, check), verdict=verdicts[0])
