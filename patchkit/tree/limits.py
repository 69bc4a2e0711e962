"""Limits on the size, nesting and integers of files, and errors for files that exceed them."""

from __future__ import annotations

import ast
import io
import os
import re
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from patchkit import memory
from patchkit.errors import TreeError, UsageError
from patchkit.tree.nodes import walk
from patchkit.tree.source import parsed_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_BYTES = 4 * 2**20
"""Longest file that is parsed; more than ten times the longest file of a release."""
MAX_TOKENS = 150_000
"""Most words, signs and lines that are parsed, almost three times those of a release's file; each takes up to 4 KB."""
MAX_BITS = 14_000
"""Largest integer that is parsed: Python refuses to write larger ones in decimal, as in the dump of a syntax tree."""
MAX_READ_BYTES = 64 * 2**20
"""Longest file that is read; many times any baseline, diff, or file of a release."""
MAX_SETTINGS_BYTES = 2**18
"""Longest server configuration file that is read; the YAML parser takes seconds for this much."""
_LARGE = re.compile(rb"0[xXoObB]\w{%d}" % (MAX_BITS // 4))
"""Digits of at most four bits each that can be a larger integer."""
_COUNTED = re.compile(rb"[\w\x80-\xff]+|[^\w\x80-\xff \t\f\r]")


class NoFileError(OSError):
    """The path is a folder, a pipe or a device."""


class TooLongError(OSError):
    """The file has more than ``MAX_READ_BYTES`` bytes."""


def read_whole(path: Path | str) -> bytes:
    """Return the bytes of a file. Raise OSError, such as NoFileError or TooLongError, if it cannot be read whole."""
    # A blocking open of a pipe would wait for a writer.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NoFileError
        # Reading a sparse file allocates its whole size. Files such as those in /proc report size 0 and have content.
        if status.st_size > MAX_READ_BYTES:
            raise TooLongError
        # `read(n)` allocates n bytes, so n is the file's size, not the limit.
        content = file.read(status.st_size + 1)
        if len(content) > status.st_size:
            content += io.BufferedReader(file).read(MAX_READ_BYTES + 1 - len(content))
        if len(content) > MAX_READ_BYTES:
            raise TooLongError
    return content


def read_named(path: Path) -> bytes:
    """Return the bytes of a file that the user named. Raise UsageError if it cannot be read whole."""
    try:
        return read_whole(path)
    except NoFileError:
        raise UsageError(
            f"{path} is a folder, a pipe or a device", advice="save it to a file and name that"
        ) from None
    except TooLongError:
        raise UsageError(
            f"{path} has more than {MAX_READ_BYTES // 2**20} MiB", advice="name another file"
        ) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})", advice="name another file") from None


def require_short(file: str, source: bytes) -> None:
    """Raise TreeError for a file that is too long to be parsed."""
    if len(source) > MAX_BYTES:
        raise TreeError(
            f"{file} has {len(source) / 2**20:.0f} MiB, and files over {MAX_BYTES / 2**20:.0f} MiB are not parsed",
            advice="split it or remove it, and try again",
        )


def require_manageable(file: str, source: bytes) -> None:
    """Raise TreeError for a source that a parser does not survive, or only with much memory: long, deep, or with an
    integer over ``MAX_BITS``. Every source that is parsed passes this first.
    """
    require_short(file, source)
    excess = _exceeded(source)
    if excess:
        raise TreeError(f"{file} {excess[0]}", advice=f"{excess[1]}, and try again")


@memory.cached(512)
def _exceeded(source: bytes) -> tuple[str, str] | None:
    """Return which limit a source exceeds, and what helps."""
    from patchkit.tree.nesting import MAX_DEPTH, nests_deeper  # Its expressions take long to compile.

    without_spaces = len(source) - source.count(b" ")  # At least as many as there are words and signs.
    if without_spaces > MAX_TOKENS and len(_COUNTED.findall(source)) > MAX_TOKENS:
        return f"has more than {MAX_TOKENS:,} words and signs", "split it"
    if nests_deeper(source, MAX_DEPTH):
        return (
            f"nests expressions or statements more than {MAX_DEPTH} deep",
            "split its longest expressions or `elif` chains",
        )
    if _LARGE.search(source):
        tree = parsed_or_none(source)
        if tree is not None and any(map(_is_large, walk(tree))):
            return f"contains an integer of more than {MAX_BITS} bits", "compute it"
    return None


def _is_large(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value.bit_length() > MAX_BITS


@contextmanager
def recursing(file: str) -> Iterator[None]:
    """Raise TreeError where code of ``file`` and of a patch nest too deep together."""
    from patchkit.tree.nesting import NestingError

    try:
        yield
    except (NestingError, RecursionError):
        raise TreeError(
            f"{file} contains an expression that is too deep with the code of a patch in it",
            advice="split it, and try again",
        ) from None
