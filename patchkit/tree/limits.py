"""Limits on the size, nesting and integers of files, and errors for files that exceed them."""

from __future__ import annotations

import ast
import os
import re
import stat
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from patchkit import collector
from patchkit.errors import TreeError, UsageError
from patchkit.tree.nodes import walk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_BYTES = 4 * 2**20
"""Longest file that is parsed; more than ten times the longest file of a release."""
MAX_DEPTH = 100
"""Deepest nesting that is parsed; more than twice the deepest file of a release."""
MAX_BITS = 14_000
"""Largest integer that is parsed: Python refuses to write larger ones in decimal, as in the dump of a syntax tree."""
MAX_READ_BYTES = 64 * 2**20
"""Longest file that is read; many times any baseline, diff, or file of a release."""
MAX_SETTINGS_BYTES = 2**18
"""Longest server configuration file that is read; the YAML parser takes seconds for this much."""
_LARGE = re.compile(rb"0[xXoObB]\w{%d}" % (MAX_BITS // 4))
"""Digits of at most four bits each that can be a larger integer."""
_LONG = 8
"""An expression on fewer lines, none of them long, is not deep."""
_BRACKET = re.compile(rb"[()\[\]{}]")
_TEXT = re.compile(rb'''(?s:""".*?"""|'{3}.*?'{3})|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|#[^\n]*''')
_PART = re.compile(rb"[,;:=]")
_LINK = re.compile(rb"[.(\[{+\-*/~]|\b(?:not|lambda|await|if)\b")
"""Tokens that lengthen an expression; they estimate the depth of sources that this interpreter cannot parse."""


class NoFileError(Exception):
    """The path is a folder, a pipe or a device."""


class TooLongError(Exception):
    """The file has more than ``MAX_READ_BYTES`` bytes."""


def read_whole(path: Path | str) -> bytes:
    """Return the bytes of a file. Raise NoFileError, TooLongError or OSError if it cannot be read whole."""
    # A blocking open of a pipe would wait for a writer.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NoFileError
        # Reading a sparse file allocates its whole size. Files such as those in /proc report size 0 and have content.
        if status.st_size > MAX_READ_BYTES:
            raise TooLongError
        # `read(n)` allocates n bytes, so n is the file's size, not the limit.
        content = file.read(status.st_size + 1)
        if len(content) > status.st_size:
            content += file.read(MAX_READ_BYTES + 1 - len(content))
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


def require_manageable(file: str, source: bytes, tree: ast.Module | None) -> None:
    """Raise TreeError for a file that nests deeper than ``MAX_DEPTH``, or has an integer over ``MAX_BITS``.

    ``tree`` is the file's parse, or None if Python cannot parse it.
    """
    if (_depth(tree) > MAX_DEPTH) if tree is not None else is_deep(source):
        raise TreeError(
            f"{file} nests expressions or statements more than {MAX_DEPTH} deep",
            advice="split its longest expressions or `elif` chains, and try again",
        )
    if tree is not None and _LARGE.search(source) and any(map(_is_large, walk(tree))):
        raise TreeError(
            f"{file} contains an integer of more than {MAX_BITS} bits", advice="compute it, and try again"
        )


def _is_large(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value.bit_length() > MAX_BITS


@contextmanager
def recursing(file: str) -> Iterator[None]:
    """Raise TreeError where the syntax tree of ``file`` nests deeper than Python's own, as a chain of `and` does."""
    try:
        yield
    except RecursionError:
        raise TreeError(
            f"{file} contains an expression with too many operators, strings or attributes to parse",
            advice="split it, and try again",
        ) from None


def is_deep(source: bytes) -> bool:
    """Return whether a source, Python or not, nests deeper than ``MAX_DEPTH``."""
    if _has_deep_brackets(source):
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _depth(ast.parse(source)) > MAX_DEPTH
    except (RecursionError, MemoryError):
        return True
    except (SyntaxError, ValueError):
        return any(len(_LINK.findall(part)) > 4 * MAX_DEPTH for part in _PART.split(_TEXT.sub(b"", source)))


def _has_deep_brackets(source: bytes) -> bool:
    depth = 0
    for bracket in _BRACKET.findall(source):
        depth = depth + 1 if bracket in b"([{" else max(depth - 1, 0)
        if depth > MAX_DEPTH:
            return True
    return False


@collector.cached(512)
def _depth(tree: ast.Module) -> int:
    deepest = -1
    level: list[ast.AST] = [tree]
    while level:
        deepest += 1
        level = [below for node in level for below in _worth_following(node)]
    return deepest


def _worth_following(node: ast.AST) -> list[ast.AST]:
    """Return the children of a node that can be deep: for a statement, its blocks and long expressions."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif isinstance(value, list):
            found += [item for item in value if isinstance(item, ast.AST)]
    return [child for child in found if not _is_short(child)] if isinstance(node, ast.stmt) else found


def _is_short(child: ast.AST) -> bool:
    return (
        isinstance(child, ast.expr)
        and (child.end_lineno or 0) - child.lineno < _LONG
        and (child.end_col_offset or 0) < 4 * MAX_DEPTH
    )
