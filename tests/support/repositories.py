"""Checkouts in which a person commits, and the state that a failing command must not change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit import api
from patchkit.patchset import load
from patchkit.tree.tree import open_tree
from support.faults import copy_folder
from support.toys import MIRROR, checked_in, edit, everything, git

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

_ASKED = {
    "index": ("ls-files", "--stage", "-v"),
    "refs": ("for-each-ref",),
    "HEAD": ("log", "-1", "--format=%H %D"),
    "reflog": ("reflog",),
    "worktrees": ("worktree", "list"),
    "status": ("status", "--porcelain"),
}


COMMITTING = {
    "apply": ("apply", "{}", "--commit"),
    "revert": ("revert", "{}", "--commit"),
    "port": ("port", "theirs", "--repo", "{}", "--onto", "{}", "--commit"),
    "rebase": ("rebase", "{}", "--onto", "newer", "--merge"),
}
"""The commands that commit, in a checkout of ``branched``."""


def branched(folder: Path, *files: str) -> CheckoutTree:
    """Create a checkout with a change of others on one branch, and a newer release on another, which add the files."""
    tree = committing(checked_in(folder))
    for branch in ("theirs", "newer"):
        git(tree.root, "checkout", "-qb", branch, "HEAD")
        edit(tree, MIRROR, b"copies = 0", f"copies = 0\n    {branch} = 1".encode())
        for file in files:
            (tree.root / file).parent.mkdir()
            (tree.root / file).write_text(branch)
        git(tree.root, "add", "--all")
        git(tree.root, "commit", "-qm", branch)
        git(tree.root, "checkout", "-q", "-")
    return tree


def committing(tree: CheckoutTree) -> CheckoutTree:
    """Return a checkout with git's user name and address configured."""
    own = next(folder for folder in (tree.package, *tree.package.parents) if (folder / ".git").exists())
    named = own / ".git"  # In a submodule a file that names the folder.
    place = own / named.read_text().removeprefix("gitdir: ").strip() if named.is_file() else named
    with (place / "config").open("a") as settings:
        settings.write("[user]\n\tname = A Maintainer\n\temail = maintainer@example.com\n")
    return tree


def committed(root: Path, message: str) -> None:
    """Make a repository of a release, with one commit; its objects are not made smaller, which takes seconds."""
    git(root, "init", "-q")
    for key in ("core.compression", "pack.window"):
        git(root, "config", key, "0")
    git(root, "add", "-A")
    git(root, "commit", "-qm", message)


def copied(tree: CheckoutTree, folder: Path) -> CheckoutTree:
    """Copy a checkout as a new folder; its index has the times of the copies."""
    copy_folder(tree.root, folder)
    git(folder, "update-index", "-q", "--refresh")
    return open_tree(folder)


def clone(tree: CheckoutTree, folder: Path, *options: str) -> CheckoutTree:
    """Clone a checkout into a folder, as ``clone``."""
    git(folder, "clone", "-q", *options, tree.root.as_uri(), "clone")
    return open_tree(folder / "clone")


def hook(tree: CheckoutTree, name: str, text: str) -> None:
    """Install a hook: a script that git runs in the top folder."""
    path = tree.root / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def whole(tree: CheckoutTree) -> dict[str, object]:
    """Return files, ledger, index, refs, worktrees and the files of git's folder other than objects."""
    found: dict[str, object] = {name: git(tree.root, *words) for name, words in _ASKED.items()}
    folder = git(tree.root, "rev-parse", "--path-format=absolute", "--git-dir").strip()
    kept = git(tree.root, "-c", f"alias.names=!ls -A '{folder}'", "names").split()
    return found | {"files": everything(tree.root), "git": kept}


def patched_states(tree: CheckoutTree) -> dict[str, str]:
    """Return each patch's state."""
    return {status.patch.id: status.state.value for status in api.status(tree, load.patches())}
