"""Output formats. Each module is one value of ``--format``; its ``document(answer)`` returns the text."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.findings.answer import SectionedReport


def names() -> tuple[str, ...]:
    """Return the names of the formats, which every command with findings accepts."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py")))


def document(name: str, answer: SectionedReport) -> str:
    """Return the findings in the format ``name``, which is one of ``names()``."""
    write: Callable[[SectionedReport], str] = importlib.import_module(f"{__name__}.{name}").document
    return write(answer)
