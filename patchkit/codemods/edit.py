"""What every codemod answers: is the edit in place, can it be made, and what is the module then."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    import libcst as cst

    from patchkit.codemods.scope import Scope


class Standing(enum.Enum):
    """How a scope stands to an edit."""

    PRESENT = "present"
    READY = "ready"
    ABSENT = "absent"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True)
class Finding:
    """One codemod's answer; ``rewrite`` makes the edit and is set exactly when the standing is READY.

    ``explain`` gives the reason, which takes a search that nobody may want to wait for.
    """

    standing: Standing
    explain: Callable[[], str] = str
    rewrite: Callable[[], cst.Module] | None = None

    @property
    def reason(self) -> str:
        """Why the edit is neither in place nor to be made; empty if it is."""
        return self.explain()


class Codemod(Protocol):
    """One kind of edit with its data. Knows Python, not what it edits."""

    def examine(self, scope: Scope, note: str) -> Finding:
        """Return how ``scope`` stands to this edit; ``note`` is the comment that a made edit carries."""
        ...


def present() -> Finding:
    """The edit is in place."""
    return Finding(Standing.PRESENT)


def absent(reason: str | Callable[[], str]) -> Finding:
    """No site was found; ``reason`` says what was expected and what was found."""
    return Finding(Standing.ABSENT, reason if callable(reason) else lambda: reason)


def ambiguous(reason: str) -> Finding:
    """Several sites match equally well."""
    return Finding(Standing.AMBIGUOUS, lambda: reason)


def ready(rewrite: Callable[[], cst.Module]) -> Finding:
    """The site is there, once, and the edit can be made."""
    return Finding(Standing.READY, rewrite=rewrite)
