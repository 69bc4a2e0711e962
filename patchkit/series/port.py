"""Commit a ported change with its author, date and message, and a trailer that names the original commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from patchkit.errors import TreeError
from patchkit.series.commit import require_committable, require_committed
from patchkit.series.worktree import linked
from patchkit.transaction.apply import Transaction
from patchkit.transaction.ledger import PORTED
from patchkit.transaction.ports import trailer
from patchkit.tree.git import git

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.drafting.change import Facts
    from patchkit.plan.status import Plan
    from patchkit.tree.tree import CheckoutTree


class Origin(Protocol):
    """The origin of a change: facts about it, and its commit and repository if it has them."""

    @property
    def facts(self) -> Facts:
        """The facts from its message."""
        ...

    @property
    def commit(self) -> str:
        """The commit's id, empty for a diff."""
        ...

    @property
    def repository(self) -> Path:
        """The repository of the commit."""
        ...


def committed(tree: CheckoutTree, whole: Plan, steps: Sequence[tuple[Origin, Plan]]) -> tuple[str, ...]:
    """Commit each change on the current branch, all or none; return their commits, empty for a change without effect.

    ``whole`` is the plan of all changes together. TreeError if git does not track the package, if a file to change has
    uncommitted changes, or if an operation is unfinished; RefusedCommitError if git or a hook refuses.
    """
    require_committable(tree)
    require_committed(tree, whole)
    made: list[str] = []
    with linked(tree, "patchkit port --commit") as there:
        for origin, plan in steps:
            if not plan.changes:
                made.append("")
                continue
            Transaction(there.tree, PORTED, allow_dirty=True, committed=True).commit(plan)
            files = sorted({change.file for change in plan.changes})
            there.add(files)
            changed = {change.file: (change.before, change.after) for change in plan.changes}
            author, date, message = _authorship(origin, trailer(origin.facts.id, changed))
            who = [f"--author={author}", f"--date={date}"] if author else []
            words = ("commit", "--quiet", "--cleanup=whitespace", *who, "--message", message)
            made.append(there.accepted(*words))
    return tuple(made)


def _authorship(origin: Origin, named: str) -> tuple[str, str, str]:
    """Return author, date and message of a change.

    The message ends with the trailer ``named`` and where the change came from, as ``git cherry-pick -x`` says it.
    """
    facts = origin.facts
    if not origin.commit:
        said = f"{facts.title or facts.id}\n"
        if facts.why and facts.why != facts.title:
            said += f"\n{facts.why}\n"
        return "", "", f"{said}\n{_trailers(named, facts.upstream_commit)}"
    form = "--format=%an <%ae>%x00%ad%x00%B"
    shown = git(origin.repository, "log", "-1", "--date=raw", form, origin.commit, "--")
    words = shown.stdout.decode(errors="replace").split("\0")
    if shown.returncode != 0 or len(words) != 3:
        raise TreeError(
            f"git cannot read the author of {origin.commit} in {origin.repository}",
            advice="run git fsck there",
        )
    author, date, message = words
    return author, date, f"{message.rstrip()}\n\n{_trailers(named, origin.commit)}"


def _trailers(named: str, commit: str) -> str:
    return f"{named}\n" + (f"(cherry picked from commit {commit})\n" if commit else "")
