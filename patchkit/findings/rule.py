"""A rule that findings break, as every output format names it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One thing that can be wrong with a tree; what is not ``fatal`` goes on without an error."""

    id: str
    name: str
    summary: str
    fatal: bool = True
