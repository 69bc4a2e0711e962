"""Apply patches and commit each on the current branch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from patchkit.commands.apply import describe_committing, describe_recording, recorded_resolutions
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.series.commit import CommitResult, PreparedCommit
    from patchkit.tree.tree import CheckoutTree, ReadTree


def commit(
    tree: CheckoutTree,
    patches: PatchSet,
    ids: Sequence[str] = (),
    *,
    only: bool = False,
    keep_going: bool = False,
    runtime: str = "",
) -> CommitResult:
    """Apply patches as ``apply`` does, with one commit for each patch on the current branch.

    Branch, index, files and ledger are changed only after all commits have been made. Raise TreeError if the files have
    uncommitted changes or git cannot commit now, and RefusedCommitError if a hook rejects a commit.
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
        planning = partial(planner.plan, ids, only=only)
        planned, unrecorded = fitting_plan(lambda without: planning(without=without)), unrecorded_edits(read)
        planned = replace(planned, patches=with_unrecorded(planned.patches, unrecorded))
        closest = partial(planning, try_closest_shape=True)
        known = recorded_resolutions(read, closest) if planned.left_out else ()
        if not keep_going:
            offer = describe_committing(known, planned.patches) if known else ""
            require_fitting(planned, requested, describe_recording(planned.patches, unrecorded) or offer)
        found = prepare(read, planner.combined_plan(planned, origin(read, planner)), patches)
        edits = tuple((patch, edit) for patch, edit, _ in unrecorded)
        return replace(found, applied=replace(found.applied, resolved_elsewhere=known, unrecorded=edits))

    return committing(tree, read_without_conflicts(tree, prepared), patches, runtime)
