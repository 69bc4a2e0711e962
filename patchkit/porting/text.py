"""Make a change in files outside the package, line by line as git does: whole files or nothing of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.change import lines
from patchkit.change.edits import Edit, Outcome
from patchkit.change.land import LandedFile
from patchkit.errors import UsageError
from patchkit.patchset.unified import DiffOptions, text_after
from patchkit.tree.outside import content, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.drafting.change import FileDiff
    from patchkit.tree.tree import Tree

_DIFFERS = "the lines differ in this tree"


def merged(changes: Sequence[FileDiff], onto: Tree) -> tuple[tuple[LandedFile, ...], dict[str, bytes | None]]:
    """Return the outcome in each file, and the new contents of those in which the whole change can be made."""
    found: list[LandedFile] = []
    contents: dict[str, bytes | None] = {}
    for change in changes:
        ours = content(onto, change.file)
        edit, after = _after(change, ours)
        found.append(LandedFile(shown(change.file), shown(change.file), [edit]))
        if edit.outcome is Outcome.LANDED:
            contents[change.file] = after
    return tuple(found), contents


def _after(change: FileDiff, ours: bytes | None) -> tuple[Edit, bytes | None]:
    """Return the outcome in a file, and its content after the change."""
    before, after = change.before, change.after
    if change.hunks:
        return _with_hunks(change, ours)
    if ours == after:
        return Edit("", Outcome.ALREADY), after
    if ours == before:
        return Edit("", Outcome.LANDED), after
    if ours is None:
        return Edit("", Outcome.NO_SITE, "this tree has no such file"), None
    if before is None or after is None:
        what = "adds" if before is None else "deletes"
        return Edit("", Outcome.CONFLICT, f"the change {what} the file, and this tree's differs"), None
    try:
        text = lines.clean(before.decode(), after.decode(), ours.decode())
    except UnicodeDecodeError:
        text = None
    if text is None:
        return Edit("", Outcome.CONFLICT, _DIFFERS), None
    return Edit("", Outcome.ALREADY if text.encode() == ours else Outcome.LANDED), text.encode()


def _with_hunks(change: FileDiff, ours: bytes | None) -> tuple[Edit, bytes | None]:
    """Return the same for a file whose content before the change is not known: its hunks have to fit."""
    if ours is None:
        return Edit("", Outcome.NO_SITE, "this tree has no such file"), None
    try:
        return Edit("", Outcome.LANDED), text_after(
            change.file, ours.decode(), change.hunks, DiffOptions()
        ).encode()
    except (UsageError, UnicodeDecodeError):
        return Edit("", Outcome.CONFLICT, _DIFFERS), None
