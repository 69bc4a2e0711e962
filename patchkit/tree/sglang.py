"""What patchkit knows of sglang's layout: where its package lies and how it says its version."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


NAME = "sglang"
SERVING = "srt"
PLACES = (f"python/{NAME}", NAME)
_VERSION = re.compile(rb"""^__version__\s*=\s*(?:\w+\s*=\s*)*["']([^"']+)["']""", re.MULTILINE)


def stated_version(read: Callable[[str], bytes | None], project: bytes | None) -> str | None:
    """Return the release that the package, or else its project file, states; None where neither does."""
    for file in ("_version.py", "version.py"):
        stated = _VERSION.search(read(file) or b"")
        if stated:
            return stated[1].decode()
    try:
        version = tomllib.loads((project or b"").decode()).get("project", {}).get("version")
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, AttributeError):
        return None
    return version if isinstance(version, str) else None


def serves(file: str) -> bool:
    """Tell whether a file belongs to the serving package."""
    return file.startswith(f"{SERVING}/")
