"""Remember the report of an unchanged tree outside the tree, keyed by every byte that went into it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import platformdirs

from patchkit.audit.report import Report

_KEPT = 32


def folder() -> Path:
    """Return where reports are kept: the user's cache folder."""
    return Path(platformdirs.user_cache_dir("patchkit")) / "audit"


def key(sources: dict[str, bytes]) -> str:
    """Return a digest of the files, of this analysis and of the interpreter whose grammar it parses with."""
    digest = hashlib.sha256(_analysis())
    for file, text in sorted(sources.items()):
        digest.update(f"\0{file}\0{len(text)}\0".encode())
        digest.update(text)
    return digest.hexdigest()


@cache
def _analysis() -> bytes:
    digest = hashlib.sha256(repr(sys.version_info).encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def load(name: str, started: float) -> Report | None:
    """Return the report kept under a key, with the seconds that finding it took, or None."""
    path = folder() / f"{name}.json"
    try:
        report = Report.from_json(json.loads(path.read_text(encoding="utf-8")))
        os.utime(path)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return replace(report, seconds=time.perf_counter() - started)


def save(name: str, report: Report) -> None:
    """Keep a report, and forget the longest unused; a cache that cannot be written is no error."""
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder(), delete=False, encoding="utf-8") as file:
            json.dump(report.as_json(), file)
        Path(file.name).replace(folder() / f"{name}.json")
        kept = sorted(folder().glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in kept[_KEPT:]:
            path.unlink(missing_ok=True)
    except OSError:
        return
