"""The answer of ``audit``."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from patchkit.audit.optout import OptOut
from patchkit.cli.answers.base import Answer
from patchkit.findings.finding import Finding, Suppressed  # noqa: TC001  # schemas are made of it


class OptOutAnswer(OptOut, frozen=True):
    """A backend; it can opt out if nothing that it runs reads the mirror unguarded."""

    can_opt_out: bool


class Audit(Answer, frozen=True, kw_only=True):
    """The answer of ``audit``; ``baseline`` counts the known findings, ``opt_out`` is that of ``--suggest-opt-out``."""

    findings: tuple[Finding, ...]
    files_scanned: int
    seconds: float
    suppressed: tuple[Suppressed, ...]
    notes: tuple[str, ...]
    baseline: int
    opt_out: tuple[OptOutAnswer, ...] | UnsetType = UNSET
