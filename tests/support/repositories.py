"""Checkouts in which a person commits, and the state that a failing command must not change."""

from __future__ import annotations

from contextlib import suppress
from subprocess import CalledProcessError
from typing import TYPE_CHECKING

from patchkit import api
from patchkit.patchset import load
from patchkit.tree.fork import RECORD
from patchkit.tree.tree import open_tree
from support.faults import copy_folder
from support.toys import everything, git

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


def committing(tree: CheckoutTree) -> CheckoutTree:
    """Return a checkout with git's user name and address configured."""
    own = next(folder for folder in (tree.package, *tree.package.parents) if (folder / ".git").exists())
    named = own / ".git"  # In a submodule a file that names the folder.
    place = own / named.read_text().removeprefix("gitdir: ").strip() if named.is_file() else named
    with (place / "config").open("a") as settings:
        settings.write("[user]\n\tname = A Maintainer\n\temail = maintainer@example.com\n")
    return tree


def copied(tree: CheckoutTree, folder: Path) -> CheckoutTree:
    """Copy a checkout as a new folder; its index has the times of the copies."""
    copy_folder(tree.root, folder)
    git(folder, "update-index", "-q", "--refresh")
    return open_tree(folder)


def clone(tree: CheckoutTree, folder: Path, *options: str) -> CheckoutTree:
    """Clone a checkout into a folder, as ``clone``."""
    git(folder, "clone", "-q", *options, tree.root.as_uri(), "clone")
    return open_tree(folder / "clone")


def settling(tree: CheckoutTree, *words: str) -> None:
    """Run git, and keep in the record the blocks of both sides, as a person does where git cannot merge them."""
    lock = tree.root / RECORD
    own = lock.read_text() if lock.exists() else ""
    popped = ""
    if words[0] == "stash":
        for place in ("stash@{0}", "stash@{0}^3"):
            with suppress(CalledProcessError):
                popped = git(tree.root, "show", f"{place}:{RECORD}")
        git(tree.root, "checkout", "-q", "--", RECORD) if git(tree.root, "ls-files", RECORD) else None
    with suppress(CalledProcessError):
        git(tree.root, *words)
    assert git(tree.root, "diff", "--name-only", "--diff-filter=U").split() in ([], [RECORD])
    blocks = [block for text in (own, popped) for block in text.split("\n\n[patch.")[1:]]
    names = dict.fromkeys(block.split("]")[0] for block in blocks)
    kept = {name: next(block for block in reversed(blocks) if block.startswith(f"{name}]")) for name in names}
    if kept:
        lock.write_text("\n\n[patch.".join(["format = 1", *kept.values()]))
        git(tree.root, "add", RECORD)


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
