"""A file that would take the parser minutes, gigabytes or the process is refused by name, with the limit."""

from __future__ import annotations

import ast
import os
import re
import stat
import warnings
from typing import TYPE_CHECKING

from patchkit import collector
from patchkit.errors import TreeError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 4 * 2**20
"""More than ten times the longest file of a release."""
MAX_DEPTH = 100
"""More than twice the deepest file of a release."""
MAX_READ_BYTES = 64 * 2**20
"""Many times a baseline, a diff, or any file of a release: no other is read whole."""
MAX_SETTINGS_BYTES = 2**18
"""Many times a server's configuration file, and seconds of its parser."""
_LONG = 8
"""A statement on fewer lines, none of them long, is not deep."""
_BRACKET = re.compile(rb"[()\[\]{}]")
_TEXT = re.compile(rb'''(?s:""".*?"""|'{3}.*?'{3})|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|#[^\n]*''')
_PART = re.compile(rb"[,;:=]")
_LINK = re.compile(rb"[.(\[{+\-*/~]|\b(?:not|lambda|await|if)\b")
"""What makes a chain longer: of a source that is no Python, for this interpreter, nothing else can be told."""


class NoFileError(Exception):
    """What is in a file's place is a folder, a pipe or a device."""


class TooLongError(Exception):
    """A file has more bytes than are read."""


def read_whole(path: Path) -> bytes:
    """Return the bytes of a file; NoFileError, TooLongError, or OSError, if there are none or no end of them."""
    # Opening a pipe would wait for a writer.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        there = os.fstat(file.fileno())
        if not stat.S_ISREG(there.st_mode):
            raise NoFileError
        # Of a file with holes even the first bytes are memory; one without a size may have bytes all the same.
        if there.st_size > MAX_READ_BYTES:
            raise TooLongError
        # What is asked for is allocated, and what is given back of that leaves a mapping of its own for each file.
        content = file.read(there.st_size + 1)
        if len(content) > there.st_size:
            content += file.read(MAX_READ_BYTES + 1 - len(content))
        if len(content) > MAX_READ_BYTES:
            raise TooLongError
    return content


def read_named(path: Path) -> bytes:
    """Return the bytes of a file that somebody named; UsageError if there is none to read, or no end of them."""
    try:
        return read_whole(path)
    except NoFileError:
        raise UsageError(
            f"{path} is a folder, a pipe or a device: save it to a file and name that."
        ) from None
    except TooLongError:
        raise UsageError(f"{path} has more than {MAX_READ_BYTES // 2**20} MiB: name another file.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): name another file.") from None


def require_short(file: str, source: bytes) -> None:
    """Raise TreeError for a file that is too long to be parsed."""
    if len(source) > MAX_BYTES:
        raise TreeError(
            f"{file} has {len(source) / 2**20:.0f} MiB, and no file of more than {MAX_BYTES / 2**20:.0f} MiB is "
            "parsed: divide it or take it out, and try again."
        )


def require_shallow(file: str, source: bytes, tree: ast.Module | None) -> None:
    """Raise TreeError for a file that nests deeper than parsers can follow.

    ``tree`` is what Python's own parser makes of it, None if that cannot parse it.
    """
    if (_depth(tree) > MAX_DEPTH) if tree is not None else is_deep(source):
        raise TreeError(
            f"{file} nests expressions or statements more than {MAX_DEPTH} deep, which nothing here follows: divide "
            "the longest of its expressions or `elif` chains, and try again."
        )


def is_deep(source: bytes) -> bool:
    """Tell whether a source, Python or not, nests deeper than parsers can follow."""
    if _brackets(source) > MAX_DEPTH:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _depth(ast.parse(source)) > MAX_DEPTH
    except (RecursionError, MemoryError):
        return True
    except (SyntaxError, ValueError):
        return any(len(_LINK.findall(part)) > 4 * MAX_DEPTH for part in _PART.split(_TEXT.sub(b"", source)))


def _brackets(source: bytes) -> int:
    depth = deepest = 0
    for bracket in _BRACKET.findall(source):
        depth = depth + 1 if bracket in b"([{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest


@collector.kept(512)
def _depth(tree: ast.Module) -> int:
    deepest = -1
    level: list[ast.AST] = [tree]
    while level:
        deepest += 1
        level = [below for node in level for below in _worth_following(node)]
    return deepest


def _worth_following(node: ast.AST) -> list[ast.AST]:
    """Return a node's children, of a statement only those that can be deep: blocks, and long expressions."""
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
