"""Names in a sentence: several of them as a list, and that of an option."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def listed(names: Sequence[str], word: str = "and") -> str:
    """Return names as a list with this word before the last one."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def option(name: str) -> str:
    """Return the option that sets a setting."""
    return f"--{name.replace('_', '-')}"
