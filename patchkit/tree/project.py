"""Read the version and the formatter's line length from project files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from patchkit.tree import toml

if TYPE_CHECKING:
    from collections.abc import Iterable

FILE = "pyproject.toml"
_VERSION = re.compile(rb"\s*[0-9A-Za-z.!_+-]{1,64}\s*")
LINE_LENGTH = 88
"""The default of black and ruff."""


def project_version(project: bytes | None) -> str | None:
    """Return the version that a project file states, or None."""
    version = _table(_read(project), "project").get("version")
    return read_version(version.encode(errors="replace")) if isinstance(version, str) else None


def read_version(stated: bytes) -> str | None:
    """Return a stated version as text, or None if it is not a plausible version."""
    return stated.decode().strip() if _VERSION.fullmatch(stated) else None


def line_length(projects: Iterable[bytes | None]) -> int:
    """Return the line length that the first project file with one sets for black or ruff."""
    for project in projects:
        tools = _table(_read(project), "tool")
        for name in ("black", "ruff"):
            width = _table(tools, name).get("line-length")
            if type(width) is int and 0 < width <= 320:  # Ruff takes no more.
                return width
    return LINE_LENGTH


def _read(project: bytes | None) -> dict[str, Any]:
    try:
        return toml.read(project or b"")
    except toml.TomlError:
        return {}


def _table(parent: dict[str, Any], name: str) -> dict[str, Any]:
    value = parent.get(name)
    return value if isinstance(value, dict) else {}
