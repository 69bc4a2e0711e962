"""The exceptions that patchkit raises, each with the exit code that the command line documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class PatchkitError(Exception):
    """An error in one sentence: ``where: what: reasons: advice.``

    ``what`` is what is wrong, ``where`` the file (and line) it is about, ``reasons`` why, if there can be several, and
    ``advice`` what to type next. All but the first may be empty.
    """

    exit_code = 1
    is_quoting = False
    """Whether ``reasons`` are lines that another program printed, which are shown unchanged."""
    difference = ""
    """A unified diff of the code that the error is about, from what patchkit wrote to what stands there."""

    def __init__(
        self, what: str, *, where: object = "", advice: str = "", reasons: Sequence[str] = ()
    ) -> None:
        self.what, self.where, self.advice, self.reasons = what, str(where), advice, tuple(reasons)
        because = "; ".join(reasons if self.is_quoting else (reason.removesuffix(".") for reason in reasons))
        sentence = ": ".join(filter(None, (what, because, f"{advice}." if advice else "")))
        super().__init__(f"{where}: {sentence}" if self.where else sentence)


class UsageError(PatchkitError):
    """An argument or a patch folder is malformed or names something that does not exist."""

    exit_code = 2


class ConflictError(PatchkitError):
    """The code around a site differs from what the patch describes; nothing was written."""

    exit_code = 3


class TreeError(PatchkitError):
    """The tree cannot be used: not sglang, not whole, unreadable, locked, dirty or interrupted; nothing was written."""

    exit_code = 4


class RefusedRepositoryError(TreeError):
    """Git refuses or cannot read a tree's repository."""


class UnfinishedError(PatchkitError):
    """A write could be neither completed nor rolled back; ``patchkit apply --continue`` resumes it."""

    exit_code = 5


def spelling_hint(name: str, names: Iterable[str], quote: str = "") -> str:
    """Return the start of an advice that names what is spelled most like ``name``; empty if nothing is similar."""
    import difflib  # An error needs it, and no other command.

    close = difflib.get_close_matches(name, [*names])
    # Of similar ones that with the same letters in another order.
    likely = max(close, key=lambda other: sorted(other) == sorted(name), default="")
    return f"did you mean {quote}{likely}{quote}? " if likely else ""
