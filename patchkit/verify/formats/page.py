"""One page that needs nothing else: the checks, and each patch with its state, why, and what it changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchkit.verify.result import Verdict
    from patchkit.verify.subject import Subject


def document(verdict: Verdict, subject: Subject) -> str:
    """Return the page."""
    return ""
