"""Each patch becomes one commit on the current branch, and nothing else of the index or the tree is touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.errors import PatchkitError, TreeError
from patchkit.series.message import message
from patchkit.transaction.apply import Applied, Transaction
from patchkit.transaction.origin import origin
from patchkit.transaction.revert import revert
from patchkit.tree.git import git

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.plan.planner import Planner
    from patchkit.plan.status import PatchStatus, Plan
    from patchkit.tree.tree import CheckoutTree

# What git leaves in its folder while something is half done, and what ends it.
_UNDER_WAY = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase or am",
}


@dataclass(frozen=True)
class Commit:
    """One patch's commit."""

    patch: str
    commit: str


@dataclass(frozen=True)
class Committed:
    """What was applied, and the commits that it was made in, oldest first."""

    applied: Applied
    commits: tuple[Commit, ...]


class RefusedCommitError(PatchkitError):
    """Git or a hook refused a patch's commit: that patch was taken back, those before it stay committed."""


def commit(
    tree: CheckoutTree,
    plan: Plan,
    planner: Planner,
    digest: str,
) -> Committed:
    """Write the plan of ``planner`` patch by patch and commit each.

    A patch whose edits another has made whole is recorded and has no commit.

    TreeError, and nothing written, unless the package is tracked by git with no change in the files that the
    plan changes and nothing half done. Hooks run; the author is git's.
    """
    transaction = Transaction(tree, digest, committed=True)
    applied = transaction.check(plan)
    require_committable(tree, [change.file for change in plan.changes if change.before is not None])
    made: list[Commit] = []
    for status in plan.made:
        name = status.patch.id
        # Planned anew: what stands by now is what the patches before it made.
        planned = planner.together(planner.plan((name,), only=True), origin(tree))
        transaction.commit(planned)
        changes = [change for change in planned.changes if change.before != change.after]
        if not changes:
            continue
        fresh = [change.file for change in changes if change.before is None]
        try:
            if fresh:
                git(tree.package, "add", "--intent-to-add", "--force", "--", *fresh)
            made.append(Commit(name, _commit(tree, [change.file for change in changes], status)))
        except RefusedCommitError as error:
            revert(tree, frozenset({name}), planner)
            before = f"; committed before it: {', '.join(one.patch for one in made)}" if made else ""
            raise RefusedCommitError(
                f"{name}: {error}, so this patch was taken back{before}: "
                "mend what refused it, then patchkit apply --commit goes on."
            ) from None
    return Committed(applied, tuple(made))


def require_committable(tree: CheckoutTree, files: Sequence[str]) -> None:
    """Raise TreeError unless commits of these files can be made now, with nothing of anyone's in them."""
    where = tree.package
    if git(where, "rev-parse", "--verify", "--quiet", "HEAD").returncode != 0:
        raise TreeError(f"{where} is in no git repository with a commit: leave out --commit.")
    for name, doing in _UNDER_WAY.items():
        place = git(where, "rev-parse", "--git-path", name).stdout.decode(errors="surrogateescape").strip()
        if (where / place).exists():
            raise TreeError(f"a {doing} is under way in {tree.root}: finish or abort it, then try again.")
    if git(tree.root, "ls-files", "--unmerged").stdout:
        raise TreeError(f"the index of {tree.root} has unmerged files: resolve them, then try again.")
    for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        if git(where, "var", who, personal=True).returncode != 0:
            raise TreeError(
                "git does not know who commits: git config user.name and user.email, then try again."
            )
    if not files:
        return
    names = tuple(files)
    if git(where, "ls-files", "--error-unmatch", "--", *names).returncode != 0:
        raise TreeError(f"git does not track all files to change in {where}: leave out --commit.")
    changed = git(where, "diff-index", "--name-only", "HEAD", "--", *names).stdout.decode(errors="replace")
    really = git(where, "diff", "--name-only", "HEAD", "--", *names, personal=True).stdout
    if changed and really:
        raise TreeError(
            f"{', '.join(changed.split())}: uncommitted changes, patchkit's own included; commit or stash "
            "them first."
        )


def _commit(tree: CheckoutTree, files: Sequence[str], status: PatchStatus) -> str:
    where = tree.package
    options = ("--quiet", "--only", "--message", message(status.patch), "--", *files)
    done = git(where, "commit", *options, personal=True)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise RefusedCommitError(f"git refused the commit ({said[0] if said else 'it did not say why'})")
    return git(where, "rev-parse", "HEAD").stdout.decode().strip()
