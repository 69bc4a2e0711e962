"""Split texts into lines where Python and git do: at line feeds, carriage returns and both together, nowhere else.

``str.splitlines`` also splits at a form feed and at Unicode's separators, which may be inside a string or a comment;
``bytes.splitlines`` does not.
"""

from __future__ import annotations

import io
import tokenize


def split_lines(text: str) -> list[str]:
    """Return the lines of a text without their line endings."""
    return [line.removesuffix("\n") for line in io.StringIO(text, newline=None)]


def lines_with_ends(text: str) -> list[str]:
    """Return the lines of a text with their line endings."""
    return list(io.StringIO(text, newline=""))


def decoded_lines(source: bytes) -> list[str]:
    """Return the lines of a file without their line endings; bytes that are not UTF-8 are replaced."""
    return [line.decode("utf-8", "replace") for line in source.splitlines()]


def encoding_of(text: bytes) -> str:
    """Return the encoding of the lines of a source; a byte order mark is only before the first."""
    return tokenize.detect_encoding(io.BytesIO(text).readline)[0].removesuffix("-sig")
