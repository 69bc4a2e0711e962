"""Make a change in files outside the package, line by line as git does: whole files or nothing of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.change import lines
from patchkit.change.edits import EditOutcome, Outcome
from patchkit.change.follow import LIKE, alike
from patchkit.change.land import LandedFile
from patchkit.errors import UsageError
from patchkit.patchset.unified import DiffOptions, text_after
from patchkit.tree.outside import content, namesakes, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.drafting.change import GivenFile
    from patchkit.tree.tree import Tree

_DIFFERS = "the lines differ in this tree"


def merged(
    changes: Sequence[GivenFile], onto: Tree
) -> tuple[tuple[LandedFile, ...], dict[str, bytes | None]]:
    """Return the outcome in each file, and the new contents of those in which the whole change can be made."""
    found: list[LandedFile] = []
    contents: dict[str, bytes | None] = {}
    for change in changes:
        file = _moved(change, onto)
        edit, after = _after(change, content(onto, file))
        notes = [f"{shown(change.file)} is {shown(file)} in this tree"] if file != change.file else []
        found.append(LandedFile(shown(change.file), shown(file), [edit], notes))
        if edit.outcome is Outcome.LANDED:
            contents[file] = after
    return tuple(found), contents


def _moved(change: GivenFile, onto: Tree) -> str:
    """Return where a tree has a file: in its place, or in the only other folder with a similar one of its name."""
    if change.before is None or content(onto, change.file) is not None:
        return change.file
    others = [
        file
        for file in namesakes(onto, change.file)
        if alike(change.before, content(onto, file) or b"") >= LIKE
    ]
    return others[0] if len(others) == 1 else change.file


def _after(change: GivenFile, ours: bytes | None) -> tuple[EditOutcome, bytes | None]:
    """Return the outcome in a file, and its content after the change."""
    before, after = change.before, change.after
    if change.hunks:
        return _with_hunks(change, ours)
    if ours == after:
        return EditOutcome("", Outcome.ALREADY), after
    if ours == before:
        return EditOutcome("", Outcome.LANDED), after
    if ours is None:
        return EditOutcome("", Outcome.NO_SITE, "this tree has no such file"), None
    if before is None or after is None:
        what = "adds" if before is None else "deletes"
        return EditOutcome("", Outcome.CONFLICT, f"the change {what} the file, and this tree's differs"), None
    try:
        text = lines.clean(before.decode(), after.decode(), ours.decode())
    except UnicodeDecodeError:
        text = None
    if text is None:
        return EditOutcome("", Outcome.CONFLICT, _DIFFERS), None
    return EditOutcome("", Outcome.ALREADY if text.encode() == ours else Outcome.LANDED), text.encode()


def _with_hunks(change: GivenFile, ours: bytes | None) -> tuple[EditOutcome, bytes | None]:
    """Return the same for a file whose content before the change is not known: its hunks have to fit."""
    if ours is None:
        return EditOutcome("", Outcome.NO_SITE, "this tree has no such file"), None
    try:
        return EditOutcome("", Outcome.LANDED), text_after(
            change.file, ours.decode(), change.hunks, DiffOptions()
        ).encode()
    except (UsageError, UnicodeDecodeError):
        return EditOutcome("", Outcome.CONFLICT, _DIFFERS), None
