"""What the project files beside a package say: its version, and how wide its formatter lets a line be."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "pyproject.toml"
LINE_LENGTH = 88
"""What black and ruff take where nobody says otherwise."""


def project_version(project: bytes | None) -> str | None:
    """Return the version that a project file states, None where it states none."""
    version = _table(_read(project), "project").get("version")
    return version if isinstance(version, str) else None


def line_length(projects: Iterable[bytes | None]) -> int:
    """Return the line length that the first of several project files sets for black or for ruff."""
    for project in projects:
        tools = _table(_read(project), "tool")
        for name in ("black", "ruff"):
            width = _table(tools, name).get("line-length")
            if isinstance(width, int) and 0 < width <= 320:  # Ruff takes no more.
                return width
    return LINE_LENGTH


def _read(project: bytes | None) -> dict[str, Any]:
    try:
        return tomllib.loads((project or b"").decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        return {}


def _table(parent: dict[str, Any], name: str) -> dict[str, Any]:
    found = parent.get(name)
    return found if isinstance(found, dict) else {}
