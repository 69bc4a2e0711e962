"""Make a patch folder of a change: its header, the change as a diff, and the files that the diff was made on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.change.follow import lookalikes
from patchkit.drafting import patch_file
from patchkit.drafting.change import Draft
from patchkit.patchset import diffs
from patchkit.patchset.unified import printed
from patchkit.plan.comments import commenting_patches
from patchkit.plan.diff import unified
from patchkit.tree.git import object_id
from patchkit.tree.sglang import PLACES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from patchkit.drafting.change import Facts
    from patchkit.plan.status import FileChange
    from patchkit.tree.tree import Tree

    Watch = Callable[[str, int, int], None]

CHANGE = "change.diff"


def draft_patch(
    tree: Tree,
    changes: Sequence[FileChange],
    facts: Facts,
    left_out: Iterable[str] = (),
    *,
    watch: Watch | None = None,
) -> Draft:
    """Return the folder of a patch that makes ``changes``; ``tree`` contains the files before them.

    ``left_out`` are changes that are already left out; the patch lists them with those that a diff cannot make.
    ``watch`` is called with each file.
    """
    kept: list[FileChange] = []
    all_left_out = [*left_out]
    others: list[str] = []
    for index, change in enumerate(changes):
        if watch is not None:
            watch(f"files: drafting {change.file}", index, len(changes))
        reason = _refusal(change)
        if reason:
            all_left_out.append(f"{printed(change.file)}: {reason}; left out.")
        elif change.before != change.after:
            kept.append(change)
            others += lookalikes(tree, change.file, change.before, change.after)
    if not kept:
        return Draft({}, (), tuple(all_left_out))
    files = {
        f"{diffs.BASE}/{object_id(change.before)}": change.before
        for change in kept
        if change.before is not None
    }
    head = "".join(f"{diffs.OTHER}{other}\n" for other in sorted(set(others)))
    files[CHANGE] = head.encode() + b"".join(map(_section, kept))
    (diff,) = diffs.read(files, Path(patch_file.FILE))
    files[patch_file.FILE] = patch_file.text(facts, all_left_out).encode()
    return Draft(files, tuple(diff.edits), tuple(all_left_out))


def _refusal(change: FileChange) -> str:
    """Return why a diff cannot make a change, empty if it can."""
    if not change.file.isprintable():
        return "its name is not printable UTF-8"
    for text in (change.before, change.after):
        try:
            is_binary = b"\0" in text.decode().encode() if text is not None else False
        except UnicodeDecodeError:
            is_binary = True
        if is_binary:
            return "it is binary or not UTF-8, which no edit can change"
    if commenting_patches(change.after or b"") - commenting_patches(change.before or b""):
        return "it adds comments of an applied patch: draft from a change without them"
    return ""


def _section(change: FileChange) -> bytes:
    """Return a file's part of a diff, as git writes it."""
    name = f"{PLACES[0]}/{change.file}"
    ids = [object_id(text) if text is not None else "0" * 40 for text in (change.before, change.after)]
    kind = "new" if change.before is None else "deleted" if change.after is None else ""
    mode = f"{kind} file mode 100644\n" if kind else ""
    index = f"index {ids[0]}..{ids[1]}{'' if kind else ' 100644'}\n"
    return f"diff --git a/{name} b/{name}\n{mode}{index}".encode() + unified(change, name)
