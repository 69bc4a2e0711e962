"""Python source: parsed once by its content, why Python does not compile it, and where its statements begin."""

from __future__ import annotations

import ast
import re
import warnings
from typing import NamedTuple

from patchkit import memory

INVALID = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What ``parsed`` raises for a source that is not Python, or that is nested too deep for this interpreter."""

MARKER = re.compile(rb"^<{7} ", re.MULTILINE)
"""The first line of a conflict, such as git leaves it."""


class Fault(NamedTuple):
    """Why Python does not compile a source: the line, the reason, and what helps."""

    line: int
    reason: str
    advice: str


# Those of a tree's files stay with their modules; many others are of texts that are looked at once.
@memory.cached(32)
def parsed(source: bytes | str) -> ast.Module:
    """Return the syntax tree of a source, which nobody may change. Raise one of ``INVALID``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Invalid escapes in the tree's strings are not reported.
        return ast.parse(source)


def parsed_or_none(source: bytes | str) -> ast.Module | None:
    """Return the syntax tree of a source, None if it has none."""
    try:
        return parsed(source)
    except INVALID:
        return None


@memory.cached(512)
def fault_of(source: bytes | str) -> Fault | None:
    """Return why Python does not compile a source, also if it is parsed, as a `return` outside of functions."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "", "exec", dont_inherit=True)
    except (RecursionError, MemoryError):
        return Fault(1, "nested deeper than this interpreter can compile", "split its longest expression")
    except SyntaxError as error:
        content = source.encode(errors="replace") if isinstance(source, str) else source
        if marker := MARKER.search(content):
            return Fault(
                content.count(b"\n", 0, marker.start()) + 1, "conflict markers", "resolve the conflict"
            )
        return Fault(error.lineno or 1, error.msg, "fix the syntax error")
    except ValueError as error:
        return Fault(1, str(error), "remove the null bytes")
    return None


def first_line(node: ast.stmt) -> int:
    """Return the line, from 0, on which a statement begins, which is that of its decorators if it has any."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
