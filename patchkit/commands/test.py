"""Apply, verify and revert a patch on a copy of a tree; the tree itself is only read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from patchkit.commands.apply import apply
from patchkit.commands.diff import diff
from patchkit.commands.revert import revert
from patchkit.commands.verify import verify
from patchkit.errors import PatchkitError
from patchkit.findings.finding import Confidence
from patchkit.plan.examples import undefined_in
from patchkit.plan.planner import Planner
from patchkit.plan.status import State
from patchkit.transaction.revert import in_code, recorded
from patchkit.tree.scratch import copied, scratch
from patchkit.tree.tree import open_tree
from patchkit.verify.result import CheckState
from patchkit.verify.subject import Criteria

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree


class Trial(msgspec.Struct, frozen=True):
    """The result of a patch on one tree; ``problems`` is empty if everything passed."""

    tree: str
    version: str | None
    state: str
    files: tuple[str, ...]
    problems: tuple[str, ...]


def test(path: Path, patches: PatchSet, name: str) -> Trial:
    """Apply a patch to a copy of the tree at ``path``, verify the copy, revert the patch, and return the problems.

    Only what the trial applied is reverted, and nothing if the tree had some of its code. Names that the patch leaves
    undefined are problems too. Raise TreeError if there is no tree at ``path``.
    """
    patch = patches.get(name)
    tree = open_tree(path)
    # A copy has no history, which tells that a tree comes after upstream's commit.
    statuses = Planner(tree, patches).statuses((patch,)) if patch.diffs else ()
    if any(status.state is State.UPSTREAM for status in statuses):
        return Trial(str(path), tree.version, State.UPSTREAM.value, (), ())
    problems: list[str] = []
    files: tuple[str, ...] = ()
    state = ""
    with scratch() as folder:
        copy = copied(tree, folder)
        before = {file: copy.read(file) for file in copy.files("", "")}
        try:
            status = next(
                status for status in diff(copy, patches, (name,)).patches if status.patch.id == name
            )
            state = status.state.value
            if state in ("conflict", "not-applicable"):
                problems += [status.reason] if state == "conflict" else []
                return Trial(str(path), tree.version, state, (), tuple(problems))
            problems += undefined_in(copy, patches.select([name]))
            in_code_before = in_code(copy, Planner(copy, patches))
            failures_before = set(_failures(copy, patches))
            files = apply(copy, patches, (name,), allow_dirty=True).files
            if files:
                problems += (
                    f"verify: {problem}"
                    for problem in _failures(copy, patches)
                    if problem not in failures_before
                )
                changed_again = apply(copy, patches, (name,), allow_dirty=True).files
                problems += [f"a second apply changes {', '.join(changed_again)}"] if changed_again else []
                applied = recorded(copy)
                # What the tree has of a patch cannot be told from what the trial added to it.
                if not set(applied).intersection(in_code_before):
                    revert(copy, patches, applied)
                    after = {file: copy.read(file) for file in copy.files("", "")}
                    changed = sorted(
                        file for file in before.keys() | after.keys() if before.get(file) != after.get(file)
                    )
                    problems += [f"revert does not restore {', '.join(changed)}"] if changed else []
        except PatchkitError as error:
            problems.append(str(error))
    return Trial(str(path), tree.version, state, files, tuple(problems))


def _failures(tree: CheckoutTree, patches: PatchSet) -> tuple[str, ...]:
    """Return the messages of all failed checks of a tree."""
    results = verify(tree, patches, Criteria(Confidence.LIKELY)).results
    failed = (result for result in results if result.outcome is CheckState.FAILED)
    return tuple(finding.message for result in failed for finding in result.findings)
