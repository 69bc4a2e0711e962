"""Ask the history of a tree's repository, where it has one."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from patchkit.tree.git import git
from patchkit.tree.objects import GitTree
from patchkit.tree.tree import CheckoutTree, TreeAbove

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import Tree


def has_commit(tree: Tree, commit: str, subject: str) -> bool:
    """Return whether a commit, or one with this subject such as a pick of it, is in the history of a tree.

    False where git cannot tell.
    """
    if isinstance(tree, TreeAbove):
        return has_commit(tree.below, commit, subject)
    if isinstance(tree, GitTree):
        folder, head = tree.repository.path, tree.ref
    elif isinstance(tree, CheckoutTree):
        folder, head = tree.root, "HEAD"
    else:
        return False
    if commit and git(folder, "merge-base", "--is-ancestor", commit, head).returncode == 0:
        return True
    last = git(folder, "rev-parse", "--verify", "--quiet", f"{head}^{{commit}}").stdout.decode().strip()
    return bool(subject and last) and subject in _subjects(folder, last)


@lru_cache(maxsize=4)
def _subjects(folder: Path, last: str) -> frozenset[str]:
    """Return the subjects of a commit and of all before it."""
    listed = git(folder, "log", "--format=%s", last, "--").stdout.decode(errors="replace")
    return frozenset(listed.split("\n"))
