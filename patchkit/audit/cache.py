"""Remember the report of an unchanged tree outside the tree, keyed by every byte that went into it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from patchkit import cache
from patchkit.findings.report import Report

if TYPE_CHECKING:
    from pathlib import Path

_AREA = "audit"


def folder() -> Path:
    """Return where reports are kept: the user's cache folder."""
    return cache.folder(_AREA)


def key(sources: dict[str, bytes]) -> str:
    """Return a digest of the files, of this analysis and of the interpreter whose grammar it parses with."""
    return cache.key(sources, ("audit", "findings", "runtime", "tree"))


def load(name: str, started: float) -> Report | None:
    """Return the report kept under a key, with the seconds that finding it took, or None."""
    report = cache.load(_AREA, name, Report)
    return None if report is None else replace(report, seconds=time.perf_counter() - started)


def save(name: str, report: Report) -> None:
    """Keep a report."""
    cache.save(_AREA, name, report)
