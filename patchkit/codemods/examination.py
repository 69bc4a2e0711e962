"""What every codemod answers: is the edit in place, can it be made, and what is the module then."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    import libcst as cst

    from patchkit.codemods.language.scope import Scope


class Standing(enum.Enum):
    """How a scope stands to an edit."""

    PRESENT = "present"
    READY = "ready"
    ABSENT = "absent"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True)
class Examination:
    """One codemod's answer; ``rewrite`` makes the edit and is set exactly when the standing is READY.

    ``explain`` gives the reason, which takes a search that nobody may want to wait for. ``brings`` are the imports
    that the rewrite adds beside the edit.
    """

    standing: Standing
    explain: Callable[[], str] = str
    rewrite: Callable[[], cst.Module] | None = None
    brings: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why the edit is neither in place as described nor to be made; empty if it is."""
        return self.explain()


class Codemod(Protocol):
    """One kind of edit with its data. Knows Python, not what it edits."""

    def examine(self, scope: Scope, note: str) -> Examination:
        """Return how ``scope`` stands to this edit; ``note`` is the comment that a made edit carries."""
        ...


def present(reason: str = "") -> Examination:
    """The edit is in place; a ``reason`` says that it is a variant of the tree's own, which stays."""
    return Examination(Standing.PRESENT, lambda: reason)


def absent(reason: str | Callable[[], str]) -> Examination:
    """No site was found; ``reason`` says what was expected and what was found."""
    return Examination(Standing.ABSENT, reason if callable(reason) else lambda: reason)


def ambiguous(reason: str) -> Examination:
    """Several sites match equally well."""
    return Examination(Standing.AMBIGUOUS, lambda: reason)


def ready(rewrite: Callable[[], cst.Module], brings: tuple[str, ...] = ()) -> Examination:
    """The site is there, once, and the edit can be made; it is made once, whoever asks."""
    return Examination(Standing.READY, rewrite=cache(rewrite), brings=brings)
