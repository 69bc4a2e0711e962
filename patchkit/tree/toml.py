"""Read TOML, of a tree, a ref or a patch folder, in memory that grows with its length."""

from __future__ import annotations

import re
import sys
from typing import Any

MAX_BYTES = 2**20
"""Longest file that is parsed, forty times the longest patch file: a short dotted name takes 300 times its length."""
MAX_PARTS = 16
"""Most parts of a dotted name: the parser's memory grows with their square."""
_NAME = rb"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*"""
_DOTTED = re.compile(rb"(?:^|[\[{,])[ \t]*(?:%s\.[ \t]*){%d}[\w\"'-]" % (_NAME, MAX_PARTS), re.MULTILINE)


class TomlError(ValueError):
    """What is wrong with a file, in words."""


def read(data: bytes) -> dict[str, Any]:
    """Return the table of a TOML file. Raise TomlError if it is invalid, too long, or nests too deep."""
    if len(data) > MAX_BYTES:
        raise TomlError(f"more than {MAX_BYTES // 2**10} KiB of TOML")
    if _DOTTED.search(data):
        raise TomlError(f"a dotted name has more than {MAX_PARTS} parts")
    if sys.version_info >= (3, 11):
        import tomllib  # Most trees have no TOML that is read.
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(data.decode())
    except ValueError as error:  # Also raised for a number with too many digits.
        raise TomlError(f"not TOML ({error})") from None
    except RecursionError:
        raise TomlError("tables or lists nest too deep") from None
