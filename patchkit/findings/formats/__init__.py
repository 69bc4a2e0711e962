"""One output format a file, named as ``--format`` names it: its ``document(answer)`` returns the text."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.findings.answer import SectionedReport


def names() -> tuple[str, ...]:
    """Return the formats that every command with findings has."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py")))


def document(name: str, answer: SectionedReport) -> str:
    """Return an answer in the format of that name, which is one of ``names()``."""
    write: Callable[[SectionedReport], str] = importlib.import_module(f"{__name__}.{name}").document
    return write(answer)
