"""Undo a change in a file that was edited since, and keep the edits; what cannot be undone exactly is a conflict."""

from __future__ import annotations

from typing import NamedTuple

from patchkit.change.exact import NotPythonError, RefusedError, merged
from patchkit.errors import ConflictError
from patchkit.tree.source import MARKER


class Undone(NamedTuple):
    """A text with a change undone, None if the file does not exist.

    ``stripped`` is the same without the imports that remain because other code uses them.
    """

    text: bytes | None
    stripped: bytes | None


def undo(file: str, after: bytes | None, ours: bytes | None, before: bytes | None) -> Undone:
    """Undo in ``ours`` the change from ``before`` to ``after``. Raise ConflictError if that is not possible exactly."""
    if after in (ours, before) or ours == before:
        text = before if after == ours else ours
        return Undone(text, text)
    if before is None and ours is not None and after is not None and _is_equal_but_line_ends(after, ours):
        return Undone(None, None)
    if after is None or ours is None or before is None:
        raise ConflictError(
            "the file, which patchkit created or deleted, was edited after apply",
            where=file,
            advice="move it elsewhere and revert again",
        )
    try:
        return Undone(*merged(file, after, before, ours))
    except NotPythonError as error:
        if marker := MARKER.search(ours):
            line = ours.count(b"\n", 0, marker.start()) + 1
            raise ConflictError(
                "conflict markers of a merge",
                where=f"{file}:{line}",
                advice="resolve the conflict and revert again",
            ) from None
        raise ConflictError(
            f"the file was edited after apply and is not valid Python ({error})",
            where=file,
            advice="fix it and revert again",
        ) from None
    except RefusedError as refusal:
        raise edited_error(f"{file}:{refusal.line}" if refusal.line else file, refusal.reason) from None


def edited_error(where: str, reason: str = "") -> ConflictError:
    """Return the error for lines of patchkit that a person changed."""
    return ConflictError(
        reason or "code that patchkit wrote was edited after apply",
        where=where,
        advice="take your change of these lines back, for example with git restore -p, use the version of patchkit "
        "that applied them, or, if the whole file was replaced, restore it with git, and revert again",
    )


def _is_equal_but_line_ends(one: bytes, other: bytes) -> bool:
    """Return whether two texts differ at most in their line ends, which git converts as it is configured."""
    return one.replace(b"\r\n", b"\n") == other.replace(b"\r\n", b"\n")
