"""Cache audit reports outside the tree, keyed by the tree's files and the analysis."""

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
    """Return the folder of cached reports, in the user's cache folder."""
    return cache.folder(_AREA)


def key(sources: dict[str, bytes]) -> str:
    """Return a digest of the files, of the analysis and of the interpreter whose grammar it uses."""
    return cache.key(sources, ("audit", "findings", "runtime", "tree"))


def load(name: str, started: float) -> Report | None:
    """Return the cached report with the seconds since ``started`` as its time, or None."""
    report = cache.load(_AREA, name, Report)
    return None if report is None else replace(report, seconds=time.perf_counter() - started)


def save(name: str, report: Report) -> None:
    """Store a report."""
    cache.save(_AREA, name, report)
