"""The interface of a check. Importing a check's module registers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.findings.finding import Confidence, Finding

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.findings.rule import Rule
    from patchkit.verify.subject import Subject


@dataclass(frozen=True)
class CheckOutcome:
    """The result of a check; ``summary`` is a few words on what was checked.

    ``skipped`` is set if there was nothing to check; ``obstacle`` is the reason why later checks cannot run.
    """

    summary: str
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: bool = False
    obstacle: str = ""


@dataclass(frozen=True)
class Check:
    """One check; ``title`` states what is true if it passes, ``order`` puts cheap checks first.

    ``always`` runs the check even after an obstacle. ``runs_code`` marks a check that runs the tree's code.
    ``of_patches`` marks a check of patches and their records, whose findings cannot predate the patches.
    """

    name: str
    title: str
    order: int
    rules: tuple[Rule, ...]
    make: Callable[[Subject], CheckOutcome]
    always: bool = False
    runs_code: bool = False
    of_patches: bool = False


_CHECKS: dict[str, Check] = {}


def register(
    name: str, title: str, *rules: Rule, order: int, **kinds: bool
) -> Callable[[Callable[[Subject], CheckOutcome]], Callable[[Subject], CheckOutcome]]:
    """Return a decorator that registers a function as a check; give each check an ``order`` of its own.

    ``kinds`` are the fields of `Check` that are true.
    """

    def add(make: Callable[[Subject], CheckOutcome]) -> Callable[[Subject], CheckOutcome]:
        _CHECKS[name] = Check(name, title, order, rules, make, **kinds)
        return make

    return add


def registered() -> tuple[Check, ...]:
    """Return every registered check, in order."""
    return tuple(sorted(_CHECKS.values(), key=lambda check: check.order))


def violation(
    rule: Rule, file: str, line: int, message: str, remedy: str, *, function: str = "", expression: str = ""
) -> Finding:
    """Return the finding that ``file`` breaks ``rule``; ``remedy`` is what to do about it."""
    return Finding(
        rule.id, file, line, function or "module", expression, message, Confidence.CERTAIN, (), remedy
    )
