"""Baselines: known findings in saved JSON output, which do not fail a run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from patchkit.errors import UsageError
from patchkit.findings.finding import Finding  # noqa: TC001  # read when a baseline is decoded
from patchkit.tree.limits import read_named

if TYPE_CHECKING:
    from pathlib import Path


class _Saved(msgspec.Struct, frozen=True):
    findings: tuple[Finding, ...]


def load(path: Path) -> tuple[Finding, ...]:
    """Return the findings of a saved ``patchkit audit --json``. Raise UsageError for any other file."""
    try:
        # msgspec's own decoder rejects file names that are not Unicode.
        return msgspec.convert(json.loads(read_named(path)), _Saved).findings
    except (ValueError, RecursionError, msgspec.DecodeError) as error:
        why = "it is not the JSON of an audit" if isinstance(error, msgspec.ValidationError) else str(error)
        raise UsageError(
            f"not a baseline ({why})", where=path, advice="save one with `patchkit audit TREE --json`"
        ) from error
