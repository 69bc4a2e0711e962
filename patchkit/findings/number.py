"""Write a number with its noun, in the singular or the plural."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return such text as ``1 file`` or ``2 files``."""
    return f"{number} {noun}{'s' * (number != 1)}"
