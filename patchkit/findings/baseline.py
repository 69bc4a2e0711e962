"""Let known findings pass, so that a pipeline fails on new ones only; a baseline is saved JSON output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from patchkit.errors import UsageError
from patchkit.findings.finding import Finding

if TYPE_CHECKING:
    from pathlib import Path


def load(path: Path) -> tuple[Finding, ...]:
    """Read the findings of a saved ``patchkit audit --json``. Raises UsageError when the file is not one."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return tuple(map(Finding.from_json, data["findings"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} is no baseline ({type(error).__name__}): save one with `patchkit audit TREE --json`"
        ) from error
