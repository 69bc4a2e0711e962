"""Make a change in links and in files outside the package, line by line as git does: whole files or nothing of them."""

from __future__ import annotations

import os
import posixpath
from typing import TYPE_CHECKING

from patchkit.change import lines
from patchkit.change.edits import EditOutcome, Outcome
from patchkit.change.follow import LIKE, alike
from patchkit.change.land import LandedFile
from patchkit.errors import UsageError
from patchkit.patchset.unified import DiffOptions, printed, text_after
from patchkit.tree.modes import FILES, FOLDER, LINK, NO_FILE, PLAIN
from patchkit.tree.names import is_unsafe
from patchkit.tree.outside import content, entry, has_outside, namesakes, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.drafting.change import GivenFile
    from patchkit.tree.tree import Tree

_DIFFERS = "the lines differ in this tree"
_NO_SUCH_FILE = EditOutcome("", Outcome.NO_SITE, "this tree has no such file")
IS_LINK = "it is a link in this tree"


def merged(
    changes: Sequence[GivenFile], onto: Tree
) -> tuple[tuple[LandedFile, ...], dict[str, bytes | None], dict[str, str]]:
    """Return the outcome in each file, and the contents of those in which the change is made, and their new modes."""
    files: list[LandedFile] = []
    contents: dict[str, bytes | None] = {}
    modes: dict[str, str] = {}
    for change in changes:
        file = _moved(change, onto)
        mode, ours = entry(onto, file)
        is_whole = LINK in (mode, *change.modes)
        edit, after = _exchanged(change, mode, ours, onto) if is_whole else _after(change, ours)
        notes = [f"{shown(change.file)} is {shown(file)} in this tree"] if file != change.file else []
        landed = LandedFile(shown(change.file), shown(file), [edit], notes)
        files.append(landed)
        if edit.outcome is Outcome.LANDED:
            contents[file] = after
            modes |= {file: change.modes[1]} if is_whole else {}
        if landed.is_whole and (of_mode := mode_edit(change, onto, file)):
            landed.edits.append(of_mode)
            if of_mode.outcome is Outcome.LANDED:
                modes[file] = change.modes[1]
                contents.setdefault(file, ours)
    return tuple(files), contents, modes


def mode_edit(change: GivenFile, onto: Tree, file: str) -> EditOutcome | None:
    """Return the outcome of the change of a file's mode, None if it does not change."""
    before, after = change.modes
    if change.before is None and change.after is not None:
        before = PLAIN
    if LINK in change.modes or before == after or (change.before is not None and change.after is None):
        return None
    if entry(onto, file)[0] == after:
        return EditOutcome("", Outcome.ALREADY)
    return EditOutcome("", Outcome.LANDED, f"its mode becomes {after}")


def _moved(change: GivenFile, onto: Tree) -> str:
    """Return where a tree has a file: in its place, or in the only other folder with a similar one of its name."""
    if change.before is None or LINK in change.modes or entry(onto, change.file)[0] != NO_FILE:
        return change.file
    others = [
        file
        for file in namesakes(onto, change.file)
        if alike(change.before, content(onto, file) or b"") >= LIKE
    ]
    return others[0] if len(others) == 1 else change.file


def _exchanged(
    change: GivenFile, mode: str, ours: bytes | None, onto: Tree
) -> tuple[EditOutcome, bytes | None]:
    """Return the outcome of a change of a link, or of a file that is one in a tree, and the link's new target."""
    before, after = zip(change.kinds, (change.before, change.after), strict=True)
    if (mode, ours) == after:
        return EditOutcome("", Outcome.ALREADY), ours
    if (mode, ours) != before:
        if mode == NO_FILE:
            return _NO_SUCH_FILE, None
        named = "a folder" if mode == FOLDER else "a file" if mode in FILES else "another link"
        reason = IS_LINK if LINK not in change.modes else f"this tree has {named} in its place"
        return EditOutcome("", Outcome.CONFLICT, reason), None
    if after[0] == LINK and _leads_out(change.file, os.fsdecode(change.after or b""), onto):
        target = printed(os.fsdecode(change.after or b""))
        return EditOutcome("", Outcome.CONFLICT, f"it leads out of the tree, to {target}"), None
    return EditOutcome("", Outcome.LANDED), change.after


def _leads_out(file: str, target: str, onto: Tree) -> bool:
    """Return whether a link leads out of a tree and its checkout, or into git's folder."""
    place = posixpath.normpath(posixpath.join(posixpath.dirname(file), target))
    is_invalid = (
        not target or target.startswith("/") or any(is_unsafe(p) for p in place.split("/") if p != "..")
    )
    return is_invalid or not has_outside(onto, place)


def _after(change: GivenFile, ours: bytes | None) -> tuple[EditOutcome, bytes | None]:
    """Return the outcome in a file, and its content after the change."""
    before, after = change.before, change.after
    if change.hunks:
        return _with_hunks(change, ours)
    if before == after:  # Its mode changes.
        return (_NO_SUCH_FILE if ours is None else EditOutcome("", Outcome.ALREADY)), ours
    if ours == after:
        return EditOutcome("", Outcome.ALREADY), after
    if ours == before:
        return EditOutcome("", Outcome.LANDED), after
    if ours is None:
        return _NO_SUCH_FILE, None
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
        return _NO_SUCH_FILE, None
    try:
        return EditOutcome("", Outcome.LANDED), text_after(
            change.file, ours.decode(), change.hunks, DiffOptions()
        ).encode()
    except (UsageError, UnicodeDecodeError):
        return EditOutcome("", Outcome.CONFLICT, _DIFFERS), None
