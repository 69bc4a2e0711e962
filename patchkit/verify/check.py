"""A check says what it looks at, what can be wrong with it, and finds that; it registers itself when imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.findings.finding import Confidence, Finding

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.findings.rule import Rule
    from patchkit.verify.subject import Subject


@dataclass(frozen=True)
class Found:
    """What a check found: ``summary`` says in a few words what was looked at.

    ``skipped`` if there was nothing to look at; ``obstacle`` is why later checks cannot be made.
    """

    summary: str
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: bool = False
    obstacle: str = ""


@dataclass(frozen=True)
class Check:
    """One check; ``title`` says what holds if it passes, ``order`` comes cheap first.

    ``always`` if it is made whatever an earlier check found, ``runs_code`` if it runs the tree's, ``of_patches`` if
    it is about patches and their records, so that nothing that it finds was there before them.
    """

    name: str
    title: str
    order: int
    rules: tuple[Rule, ...]
    make: Callable[[Subject], Found]
    always: bool = False
    runs_code: bool = False
    of_patches: bool = False


_CHECKS: dict[str, Check] = {}


def register(
    name: str,
    title: str,
    *rules: Rule,
    order: int,
    always: bool = False,
    runs_code: bool = False,
    of_patches: bool = False,
) -> Callable[[Callable[[Subject], Found]], Callable[[Subject], Found]]:
    """Make a function a check; of two with the same ``order`` nobody says which comes first."""

    def add(make: Callable[[Subject], Found]) -> Callable[[Subject], Found]:
        _CHECKS[name] = Check(name, title, order, rules, make, always, runs_code, of_patches)
        return make

    return add


def registered() -> tuple[Check, ...]:
    """Return every check whose module has been imported, in order."""
    return tuple(sorted(_CHECKS.values(), key=lambda check: check.order))


def broken(
    rule: Rule, file: str, line: int, message: str, remedy: str, *, function: str = "", expression: str = ""
) -> Finding:
    """Return the finding that ``file`` breaks ``rule``; ``remedy`` says what to do about it."""
    return Finding(
        rule.id, file, line, function or "module", expression, message, Confidence.CERTAIN, (), remedy
    )
