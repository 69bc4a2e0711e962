"""A rule that findings break, as every output format names it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One rule of the audit, as the report and SARIF describe it."""

    id: str
    name: str
    summary: str
    fatal: bool = True
