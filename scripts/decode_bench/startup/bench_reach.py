"""Record which patches an engine runs: an edit counts once a statement marked by its comment was executed.

Each statement is recorded once per process; after that it runs without overhead.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import CodeType

# Environment variable: the file to which the comments of patches are appended, one per line.
REACHED = "PATCHKIT_BENCH_REACHED"
# Environment variable: the tree's package.
PACKAGE = "PATCHKIT_BENCH_PACKAGE"
_MARK = re.compile(r"\s*# patchkit ([\w-]+:.*)")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def marked_lines(source: str) -> Mapping[int, frozenset[str]]:
    """Return the comments of patches for each line: the lines of a marked statement or, for a function, of its body.

    The body of a class, except for its functions, runs at import and does not count.
    """
    marks = {
        number: match[1].strip()
        for number, line in enumerate(source.splitlines(), 1)
        if (match := _MARK.match(line))
    }
    claimed: dict[int, set[str]] = {}
    for above, statement in _statements(ast.parse(source)) if marks else ():
        ids = {marks[line] for line in range(above, _first(statement)) if line in marks}
        for line in _lines(statement) if ids else ():
            claimed.setdefault(line, set()).update(ids)
    return {line: frozenset(ids) for line, ids in claimed.items()}


def _statements(node: ast.AST) -> Iterator[tuple[int, ast.stmt]]:
    """Yield each statement, except simple ones in a class, with the first line of comments above it."""
    above = getattr(node, "lineno", 0) + 1
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            if not isinstance(node, ast.ClassDef) or isinstance(child, _DEFINITIONS):
                yield above, child
            above = (child.end_lineno or child.lineno) + 1
        yield from _statements(child)


def _first(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _lines(statement: ast.stmt) -> Iterable[int]:
    body = getattr(statement, "body", None)
    if isinstance(statement, _DEFINITIONS):
        # A docstring is not a statement that runs.
        documented = ast.get_docstring(statement) is not None and len(statement.body) > 1
        return (inner.lineno for inner in statement.body[documented:])
    # Of a statement with a block only its head: the block may be passed over.
    end = _first(body[0]) if body else (statement.end_lineno or statement.lineno) + 1
    return range(statement.lineno, max(end, statement.lineno + 1))


def install(package: Path, record: str) -> None:
    """Append each comment of a patch whose code below ``package`` is executed to ``record``, once per process.

    Does nothing before Python 3.12, which cannot monitor lines at no cost.
    """
    if sys.version_info < (3, 12):
        return
    watch = sys.monitoring
    tool = watch.PROFILER_ID
    root = f"{package.resolve()}{os.sep}"
    file = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    seen: set[str] = set()

    @cache
    def claims(filename: str) -> Mapping[int, frozenset[str]]:
        if not filename.startswith(root):
            return {}
        try:
            return marked_lines(Path(filename).read_text())
        except (OSError, SyntaxError, UnicodeDecodeError):
            return {}

    def started(code: CodeType, offset: int) -> Any:
        lines = claims(code.co_filename)
        if lines and any(line in lines for _, _, line in code.co_lines() if line is not None):
            watch.set_local_events(tool, code, watch.events.LINE)
        return watch.DISABLE

    def executed(code: CodeType, line: int) -> Any:
        for patch in claims(code.co_filename).get(line, frozenset()) - seen:
            seen.add(patch)
            os.write(file, f"{patch}\n".encode())
        return watch.DISABLE

    watch.use_tool_id(tool, "patchkit.reach")
    watch.register_callback(tool, watch.events.PY_START, started)
    watch.register_callback(tool, watch.events.LINE, executed)
    watch.set_events(tool, watch.events.PY_START)
