"""What differs between two texts becomes hunks, each in the smallest named place that holds it."""

from __future__ import annotations

import ast
import copy
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from patchkit.codemods.examination import Standing
from patchkit.codemods.language import syntax
from patchkit.codemods.language.hunks import Hunk
from patchkit.drafting.change import Drafted
from patchkit.drafting.lines import Run, runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_AROUND = (3, 6, 12, 30)
"""How many lines that stay a hunk has on each side: more only where fewer do not tell its place."""


_MANY = 40
"""Runs of lines in one place, beyond which it gets one hunk: to tell each from all others takes too long."""


@dataclass(frozen=True)
class _Side:
    """A scope's lines in one text, as they are at the margin, and the numbers of the first and the last in the file."""

    lines: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True)
class _Place:
    """A scope that both texts have once."""

    name: str
    old: _Side
    new: _Side


class Named:
    """The lines of a text, and those of each definition that its dotted name tells from all others."""

    def __init__(self, file: str, text: str) -> None:
        self.lines = tuple(text.split("\n"))
        self.spans: dict[str, tuple[int, int]] = {}
        self.headers: dict[str, str] = {}
        if file.endswith(".py"):
            self._read(text)

    def _read(self, text: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except (SyntaxError, ValueError):
            return
        twice: set[str] = set()
        for name, node in _named(tree, ""):
            if name in self.spans:
                twice.add(name)
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            self.spans[name] = (first - 1, node.end_lineno or node.lineno)
            self.headers[name] = header(node)
        for name in list(self.spans):
            if any(name == other or name.startswith(f"{other}.") for other in twice):
                del self.spans[name]

    def side(self, name: str) -> _Side:
        """Return a definition, or the whole text if the name is empty."""
        if not name:
            return _Side(self.lines, 0, len(self.lines))
        start, end = self.spans[name]
        return _Side(tuple(_at_the_margin(self.lines[start:end])), start, end)

    def holding(self, start: int, end: int) -> set[str]:
        """Return the definitions that a run of lines is in; what comes behind the last line of a block may be, too."""
        return {
            name
            for name, (first, last) in self.spans.items()
            if first <= start and end <= last and not (start == end == first)
        }


def outlines(before: str, after: str) -> list[str]:
    """Return two texts in which definitions that both have at the margin are a line each, the same in both."""
    sides = [Named(".py", text) for text in (before, after)]
    both = sides[0].spans.keys() & sides[1].spans.keys()
    return ["\n".join(_outline(side, both, sides[0].headers)) for side in sides]


def header(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return a definition without decorators, and with `...` for its body."""
    bare = copy.copy(node)
    bare.decorator_list, bare.body = [], [ast.Expr(ast.Constant(...))]
    return ast.unparse(bare)


def _outline(side: Named, both: set[str], headers: Mapping[str, str]) -> Iterator[str]:
    at = 0
    spans = sorted((side.spans[name], name) for name in both if "." not in name)
    for (start, end), name in spans:
        if side.lines[start][:1].strip() and start >= at:
            yield from side.lines[at:start]
            yield from headers[name].split("\n")
            at = end
    yield from side.lines[at:]


def hunks(file: str, before: str, after: str) -> list[Drafted]:
    """Return the hunks that make the second text of the first, to be made from top to bottom."""
    old, new = Named(file, before), Named(file, after)
    found = runs(old.lines, new.lines)
    homes = []
    for run in found:
        names = old.holding(run.start, run.end) & new.holding(run.at, run.to)
        homes.append(min(names, key=lambda name: old.spans[name][1] - old.spans[name][0], default=""))
    edits: list[Drafted] = []
    at = 0
    while at < len(found):
        end = at + 1
        while end < len(found) and homes[end] == homes[at]:
            end += 1
        limits = (found[at - 1].end if at else 0, found[end].start if end < len(found) else len(old.lines))
        place = _Place(homes[at], old.side(homes[at]), new.side(homes[at]))
        edits += _in_place(file, place, found[at:end], limits)
        at = end
    return edits


def whole(file: str, before: str, after: str) -> list[Drafted]:
    """Return one hunk that has all lines of the first text."""
    old, new = before.split("\n"), after.split("\n")
    return [Drafted("hunk", file, {"diff": _text(old, new, runs(old, new), 0, len(old))})]


def made_file(file: str, after: str) -> Drafted:
    """Return the hunk that makes a file that is not there."""
    return Drafted("hunk", file, {"diff": "\n".join(f"+{line}" for line in after.split("\n"))})


def _at_the_margin(lines: Sequence[str]) -> list[str]:
    """Return the lines of a definition without what it is indented by, which lines of strings do not have."""
    indented = bool(lines[0][:1].strip()) is False
    source = "\n".join(["if 0:", *lines, ""] if indented else [*lines, ""])
    module = cst.parse_module(source)
    node = syntax.node_at(module, (("body", 0), ("body", None), ("body", 0)) if indented else (("body", 0),))
    return module.code_for_node(node).removesuffix("\n").split("\n")


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


def _in_place(file: str, place: _Place, found: Sequence[Run], limits: tuple[int, int]) -> Iterator[Drafted]:
    """Yield the hunks of one place, as few runs in each as can be made and found again by themselves."""
    at = f"{file}::{place.name}" if place.name else file
    left = [_shifted(place, run) for run in found]
    low, high = (min(max(limit - place.old.start, 0), len(place.old.lines)) for limit in limits)
    while left:
        for count in range(1, len(left) + 1) if len(left) <= _MANY else (len(left),):
            bottom = left[count].start if count < len(left) else high
            is_certain = count == len(left) or not file.endswith(".py")
            text = _told_apart(place, left[:count], (low, bottom), is_certain=is_certain)
            if text is not None:
                break
        text = text or _text(place.old.lines, place.new.lines, left, low, high)
        yield Drafted("hunk", at, {"diff": text})
        low, left = left[count - 1].end, left[count:]


def _shifted(place: _Place, run: Run) -> Run:
    return Run(
        run.start - place.old.start,
        run.end - place.old.start,
        run.at - place.new.start,
        run.to - place.new.start,
    )


def _told_apart(
    place: _Place, found: Sequence[Run], limits: tuple[int, int], *, is_certain: bool
) -> str | None:
    """Return a hunk with as many lines around it as tell its place; None if none do, or it leaves no Python."""
    old, new = place.old.lines, place.new.lines
    made = list(old)
    for run in reversed(found):
        made[run.start : run.end] = new[run.at : run.to]
    if not is_certain and not _is_python(made):
        return None
    for around in _AROUND:
        start = max(found[0].start - around, limits[0])
        end = min(found[-1].end + around, limits[1])
        text = _text(old, new, found, start, end)
        hunk = Hunk.read(text)
        to_come = hunk.examine(old, lambda _: False)
        is_right = to_come.standing is Standing.READY and list(to_come.lines) == made
        if is_right and all(
            hunk.examine(each, lambda _: False).standing is Standing.PRESENT for each in (made, new)
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
