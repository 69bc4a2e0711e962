"""Draft hunks for the differences between two texts, each in the innermost definition that contains it."""

from __future__ import annotations

import ast
import copy
import re
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from patchkit.codemods.examination import SiteState
from patchkit.codemods.language.hunks import Hunk
from patchkit.drafting.change import EditDraft
from patchkit.drafting.lines import Run, runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CONTEXT_LINES = (3, 6, 12, 30)
"""The numbers of context lines to try: the fewest that make the place unambiguous are used."""


_MAX_RUNS = 40
"""The most runs of lines in one scope that get separate hunks; more would take too long."""


@dataclass(frozen=True)
class _Side:
    """A scope's lines in one text, without indentation, and their range in the file."""

    lines: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True)
class _SharedScope:
    """A scope that exists once in both texts."""

    name: str
    old: _Side
    new: _Side


@lru_cache(maxsize=8)
def parsed(text: str) -> ast.Module:
    """Return a text's syntax tree, cached. Raise SyntaxError or ValueError if it is not Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


class DefinitionRanges:
    """The lines of a text, and the range of each definition with a unique dotted name."""

    def __init__(self, file: str, text: str) -> None:
        self.lines = tuple(text.split("\n"))
        self.spans: dict[str, tuple[int, int]] = {}
        self._sides: dict[str, _Side] = {}
        self._nodes: dict[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef] = {}
        if file.endswith(".py"):
            self._read(text)

    def _read(self, text: str) -> None:
        try:
            tree = parsed(text)
        except (SyntaxError, ValueError):
            return
        duplicates: set[str] = set()
        for name, node in _named(tree, ""):
            if name in self.spans:
                duplicates.add(name)
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            self.spans[name] = (first - 1, node.end_lineno or node.lineno)
            self._nodes[name] = node
        for name in list(self.spans):
            if any(name == other or name.startswith(f"{other}.") for other in duplicates):
                del self.spans[name]

    def side(self, name: str) -> _Side:
        """Return a definition, or the whole text for an empty name."""
        if name in self._sides:
            return self._sides[name]
        if not name:
            return _Side(self.lines, 0, len(self.lines))
        start, end = self.spans[name]
        side = _Side(tuple(dedented(self.lines[start:end])), start, end)
        self._sides[name] = side
        return side

    def header(self, name: str) -> str:
        """Return a definition without decorators and body."""
        return header(self._nodes[name])

    def is_class(self, name: str) -> bool:
        """Return whether a definition is a class."""
        return isinstance(self._nodes[name], ast.ClassDef)

    def is_in_a_body(self, name: str) -> bool:
        """Return whether a definition is directly in the body of a class or the module, in no other block."""
        outer = self._nodes.get(name.rpartition(".")[0])
        column = self._nodes[name].col_offset
        return column == 0 if outer is None else column == outer.body[0].col_offset

    def containing(self, start: int, end: int) -> set[str]:
        """Return the definitions that contain a run of lines; the lines after a block's last one may belong to it."""
        return {
            name
            for name, (first, last) in self.spans.items()
            if first <= start and end <= last and not (start == end == first)
        }


@lru_cache(maxsize=8)
def definition_ranges(file: str, text: str) -> DefinitionRanges:
    """Return the lines of a text by definition, cached."""
    return DefinitionRanges(file, text)


def outlines(file: str, name: str, before: str, after: str) -> list[str]:
    """Return a definition, or the whole text for an empty name, from two texts that both contain it.

    The definitions in a class or module that both have are replaced by the same header.
    """
    old, new = definition_ranges(file, before), definition_ranges(file, after)
    within = f"{name}." if name else ""
    both = {
        each
        for each in old.spans.keys() & new.spans.keys()
        if each.startswith(within) and "." not in each[len(within) :] and old.is_in_a_body(each)
    }
    if name and not old.is_class(name):
        both = set()
    return ["\n".join((*_outline(side, name, both, old), *([""] if name else []))) for side in (old, new)]


def header(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return a definition without decorators, and with ``...`` as its body."""
    bare = copy.copy(node)
    bare.decorator_list, bare.body = [], [ast.Expr(ast.Constant(...))]
    return ast.unparse(bare)


def _outline(side: DefinitionRanges, name: str, both: set[str], first: DefinitionRanges) -> Sequence[str]:
    at, end = side.spans[name] if name else (0, len(side.lines))
    if not both:
        return side.side(name).lines
    lines: list[str] = []
    for (start, stop), each in sorted((side.spans[each], each) for each in both):
        indent = side.lines[start][: len(side.lines[start]) - len(side.lines[start].lstrip())]
        lines += side.lines[at:start]
        lines += (f"{indent}{line}" for line in first.header(each).split("\n"))
        at = stop
    lines += side.lines[at:end]
    return dedented(lines) if name else lines


def hunks(file: str, before: str, after: str) -> list[EditDraft]:
    """Return the hunks that turn the first text into the second, to be applied from top to bottom."""
    old, new = definition_ranges(file, before), definition_ranges(file, after)
    found = runs(old.lines, new.lines)
    scopes = []
    for run in found:
        names = old.containing(run.start, run.end) & new.containing(run.at, run.to)
        scopes.append(min(names, key=lambda name: old.spans[name][1] - old.spans[name][0], default=""))
    edits: list[EditDraft] = []
    at = 0
    while at < len(found):
        end = at + 1
        while end < len(found) and scopes[end] == scopes[at]:
            end += 1
        limits = (found[at - 1].end if at else 0, found[end].start if end < len(found) else len(old.lines))
        scope = _SharedScope(scopes[at], old.side(scopes[at]), new.side(scopes[at]))
        edits += _scope_hunks(file, scope, found[at:end], limits)
        at = end
    return edits


def file_hunk(file: str, before: str, after: str) -> list[EditDraft]:
    """Return one hunk with all lines of the first text."""
    old, new = before.split("\n"), after.split("\n")
    return [EditDraft("hunk", file, {"diff": _text(old, new, runs(old, new), 0, len(old))})]


def new_file_hunk(file: str, after: str) -> EditDraft:
    """Return the hunk that creates a file."""
    return EditDraft("hunk", file, {"diff": "\n".join(f"+{line}" for line in after.split("\n"))})


def dedented(lines: Sequence[str]) -> list[str]:
    """Return lines without the indentation of the first one; lines inside strings are unchanged."""
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    inside = _continued(lines) if indent else frozenset()
    return [line if at in inside else line.removeprefix(indent) for at, line in enumerate(lines)]


_TOKENS = re.compile(
    r"""#[^\n]*|"{3}(?:[^\\"]|\\.|"(?!""))*"{3}|'{3}(?:[^\\']|\\.|'(?!''))*'{3}"""
    r"""|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\\\n""",
    re.DOTALL,
)


def _continued(lines: Sequence[str]) -> frozenset[int]:
    """Return the lines, from 0, that start inside a string or after a backslash, whose indentation has meaning."""
    text = "\n".join(lines)
    found: set[int] = set()
    at = line = 0
    for token in _TOKENS.finditer(text):
        count = token[0].count("\n")
        if count:
            line += text.count("\n", at, token.start())
            at = token.start()
            found.update(range(line + 1, line + count + 1))
    return frozenset(found)


def _named(
    node: ast.AST, path: str
) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            name = f"{path}.{child.name}".lstrip(".")
            yield name, child
            yield from _named(child, name)
        elif isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from _named(child, path)


def _scope_hunks(
    file: str, scope: _SharedScope, found: Sequence[Run], limits: tuple[int, int]
) -> Iterator[EditDraft]:
    """Yield the hunks of one scope, each with as few runs as can be applied and recognised alone."""
    at = f"{file}::{scope.name}" if scope.name else file
    remaining = [_shifted(scope, run) for run in found]
    low, high = (min(max(limit - scope.old.start, 0), len(scope.old.lines)) for limit in limits)
    while remaining:
        for count in range(1, len(remaining) + 1) if len(remaining) <= _MAX_RUNS else (len(remaining),):
            bottom = remaining[count].start if count < len(remaining) else high
            may_be_invalid = count == len(remaining) or not file.endswith(".py")
            text = _unambiguous_hunk(scope, remaining[:count], (low, bottom), may_be_invalid=may_be_invalid)
            if text is not None:
                break
        text = text or _text(scope.old.lines, scope.new.lines, remaining, low, high)
        yield EditDraft("hunk", at, {"diff": text})
        low, remaining = remaining[count - 1].end, remaining[count:]


def _shifted(scope: _SharedScope, run: Run) -> Run:
    return Run(
        run.start - scope.old.start,
        run.end - scope.old.start,
        run.at - scope.new.start,
        run.to - scope.new.start,
    )


def _unambiguous_hunk(
    scope: _SharedScope, found: Sequence[Run], limits: tuple[int, int], *, may_be_invalid: bool
) -> str | None:
    """Return a hunk with enough context to be unambiguous; None if there is none, or its result is not Python."""
    old, new = scope.old.lines, scope.new.lines
    result = list(old)
    for run in reversed(found):
        result[run.start : run.end] = new[run.at : run.to]
    if not may_be_invalid and not _is_python(result):
        return None
    for context in _CONTEXT_LINES:
        start = max(found[0].start - context, limits[0])
        end = min(found[-1].end + context, limits[1])
        text = _text(old, new, found, start, end)
        hunk = Hunk.read(text)
        examined = hunk.examine(old, lambda _: False)
        is_made = examined.state is SiteState.READY and list(examined.lines) == result
        if is_made and all(
            hunk.examine(each, lambda _: False).state is SiteState.PRESENT for each in (result, new)
        ):
            return text
    return None


def _is_python(lines: Sequence[str]) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse("\n".join(lines))
    except (SyntaxError, ValueError):
        return False
    return True


def _text(old: Sequence[str], new: Sequence[str], found: Sequence[Run], start: int, end: int) -> str:
    while start < found[0].start and not old[start].strip():
        start += 1
    while end > found[-1].end and not old[end - 1].strip():
        end -= 1
    lines: list[str] = []
    for run in found:
        lines += [f" {line}" if line else "" for line in old[start : run.start]]
        lines += [f"-{line}" for line in old[run.start : run.end]]
        lines += [f"+{line}" for line in new[run.at : run.to]]
        start = run.end
    return "\n".join([*lines, *(f" {line}" if line else "" for line in old[start:end])])
