"""Write a number with its noun, in the singular or the plural."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return such text as ``1 file``, ``2 files`` or ``2 patches``."""
    plural = "es" if noun.endswith("ch") else "s"
    return f"{number} {noun}{plural * (number != 1)}"
