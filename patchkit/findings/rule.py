"""Rules, to which findings refer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One kind of defect; after a use that is not ``fatal`` the code goes on without an error."""

    id: str
    name: str
    summary: str
    fatal: bool = True
