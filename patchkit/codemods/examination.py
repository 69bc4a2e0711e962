"""The result of examining a scope: whether the edit is in place, possible, absent or ambiguous."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import libcst as cst


class SiteState(enum.Enum):
    """The state of an edit in a scope."""

    PRESENT = "present"
    READY = "ready"
    ABSENT = "absent"
    AMBIGUOUS = "ambiguous"


class Reason(msgspec.Struct, frozen=True):
    """Why an edit is neither in place as described nor possible: a text, and the lines of the scope that end it."""

    text: str = ""
    lines: tuple[str, ...] = ()

    def after(self, text: str) -> Reason:
        """Return the reason with a text before it."""
        return Reason(f"{text}{self.text}", self.lines)

    def numbered(self, numbers: Sequence[int] = ()) -> str:
        """Return the reason as text, with the numbers of its lines if they are known."""
        given = [f" (line {number})" for number in numbers] or [""] * len(self.lines)
        return self.text + ", ".join(
            f"`{line}`{place}" for line, place in zip(self.lines, given, strict=True)
        )


@dataclass(frozen=True)
class Examination:
    """The result of one edit; ``rewrite`` makes the edit and is set exactly if the state is READY.

    ``explain`` returns the reason; it searches for the nearest code, so call it only if needed. ``form`` is the code
    of an edit in place, or the pattern of it that was found, where an edit has several forms.
    ``added_imports`` lists the imports that the rewrite adds.
    """

    state: SiteState
    explain: Callable[[], Reason] = Reason
    rewrite: Callable[[], cst.Module] | None = None
    added_imports: tuple[str, ...] = ()
    form: str = ""

    @property
    def reason(self) -> str:
        """Why the edit is neither in place as described nor possible; empty otherwise."""
        return self.explain().numbered()


def present(reason: str = "", *, form: str = "") -> Examination:
    """Return that the edit is in place; a ``reason`` describes the tree's own variant, which is kept."""
    return Examination(SiteState.PRESENT, lambda: Reason(reason), form=form)


def absent(reason: str | Callable[[], Reason]) -> Examination:
    """Return that there is no site; ``reason`` describes what was expected and what was found."""
    return Examination(SiteState.ABSENT, reason if callable(reason) else lambda: Reason(reason))


def ambiguous(reason: str | Reason) -> Examination:
    """Return that several sites match equally well."""
    return Examination(SiteState.AMBIGUOUS, lambda: reason if isinstance(reason, Reason) else Reason(reason))


def ready(rewrite: Callable[[], cst.Module], added_imports: tuple[str, ...] = ()) -> Examination:
    """Return that the edit can be made at one site; ``rewrite`` is called at most once."""
    return Examination(SiteState.READY, rewrite=cache(rewrite), added_imports=added_imports)
