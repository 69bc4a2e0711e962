"""Apply patches and commit each on the current branch, verified before it moves if that is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.commands.apply import prepare
from patchkit.commands.verify import criteria_of, verify
from patchkit.errors import ConflictError
from patchkit.series.commit import commit as committing
from patchkit.series.commit import prepare as committable
from patchkit.series.commit import require_committable
from patchkit.transaction.conflicts import read_without_conflicts
from patchkit.transaction.renewal import older_forms
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
    # During a merge a file has conflict markers, and the plan would say only that it is not Python.
    require_committable(tree)
    runtime = runtime or patches.settings.runtime

    def prepared(read: ReadTree) -> PreparedCommit:
        older = sorted(older_forms(read, patches))
        if older:
            raise ConflictError(
                f"{', '.join(older)}: the tree has an older form",
                advice="run patchkit apply, which replaces it, and commit that first",
            )
        made = prepare(read, patches, ids, keep_going=keep_going, runtime=runtime, committing=True)
        prepared_commit = committable(read, made.plan)
        return replace(prepared_commit, applied=made.completed(prepared_commit.applied))

    prepared_commit = read_without_conflicts(tree, prepared)
    if not verifying:
        return committing(tree, prepared_commit, patches, runtime)
    verdicts: list[Verdict] = []

    def check(made: CheckoutTree) -> None:
        verdicts.append(verify(made, patches, criteria_of(tree)))
        if not verdicts[0].passed:
            raise UnverifiedError(verdicts[0], prepared_commit.plan)

    return replace(committing(tree, prepared_commit, patches, runtime, check), verdict=verdicts[0])
