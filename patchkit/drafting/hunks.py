"""What differs between two texts becomes hunks, each in the smallest named place that holds it."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from patchkit.codemods.examination import Standing
from patchkit.codemods.language import scope as scopes
from patchkit.codemods.language.hunks import Hunk
from patchkit.drafting.change import Drafted
from patchkit.drafting.lines import Run, runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_AROUND = (3, 6, 12, 30)
"""How many lines that stay a hunk has on each side: more only where fewer do not tell its place."""


@dataclass(frozen=True)
class _Side:
    """A scope's lines in one text, the number of the first in the file, and where its first statement begins."""

    lines: tuple[str, ...]
    first: int
    start: int
    end: int


@dataclass(frozen=True)
class _Place:
    """A scope that both texts have once."""

    name: str
    old: _Side
    new: _Side

    def holds(self, run: Run) -> bool:
        """Tell whether a run of lines lies in the scope, in both texts."""
        return _is_in(self.old, run.start, run.end) and _is_in(self.new, run.at, run.to)


def hunks(file: str, before: str, after: str) -> list[Drafted]:
    """Return the hunks that make the second text of the first, to be made from top to bottom."""
    old, new = before.split("\n"), after.split("\n")
    found = runs(old, new)
    whole = _Place("", _Side(tuple(old), 0, 0, len(old)), _Side(tuple(new), 0, 0, len(new)))
    places = _places(before, after) if file.endswith(".py") else []
    homes = [min((p for p in places if p.holds(run)), key=_size, default=whole) for run in found]
    edits: list[Drafted] = []
    at = 0
    while at < len(found):
        end = at + 1
        while end < len(found) and homes[end] is homes[at]:
            end += 1
        limits = (found[at - 1].end if at else 0, found[end].start if end < len(found) else len(old))
        edits += _in_place(file, homes[at], found[at:end], limits)
        at = end
    return edits


def whole(file: str, before: str, after: str) -> list[Drafted]:
    """Return one hunk that has all lines of the first text."""
    old, new = before.split("\n"), after.split("\n")
    return [Drafted("hunk", file, {"diff": _text(old, new, runs(old, new), 0, len(old))})]


def made_file(file: str, after: str) -> Drafted:
    """Return the hunk that makes a file that is not there."""
    return Drafted("hunk", file, {"diff": "\n".join(f"+{line}" for line in after.split("\n"))})


def _size(place: _Place) -> int:
    return place.old.end - place.old.start


def _is_in(side: _Side, start: int, end: int) -> bool:
    # What comes behind the last line of a block belongs to it if the other text says so.
    return side.start <= start and end <= side.end and not (start == end == side.start)


def _places(before: str, after: str) -> list[_Place]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spans = [_spans(ast.parse(text)) for text in (before, after)]
        modules = [cst.parse_module(text) for text in (before, after)]
    except (SyntaxError, ValueError, cst.ParserSyntaxError):
        return []
    found = []
    for name in spans[0].keys() & spans[1].keys():
        sides = [_side(*each, name) for each in zip(modules, (spans[0][name], spans[1][name]), strict=True)]
        if sides[0] is not None and sides[1] is not None:
            found.append(_Place(name, sides[0], sides[1]))
    return found


def _spans(tree: ast.AST) -> dict[str, tuple[int, int]]:
    """Return the lines, from 0, of each definition that its dotted name tells from all others."""
    found: dict[str, tuple[int, int]] = {}
    twice: set[str] = set()
    for name, node in _named(tree, ""):
        if name in found:
            twice.add(name)
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        found[name] = (first - 1, node.end_lineno or node.lineno)
    return {name: span for name, span in found.items() if name not in twice}


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


def _side(module: cst.Module, span: tuple[int, int], name: str) -> _Side | None:
    there = scopes.resolve(module, name)
    if len(there) != 1:
        return None
    node = there[0].node
    text = module.code_for_node(node).removesuffix("\n")
    lead = len(node.leading_lines)  # type: ignore[attr-defined]
    return _Side(tuple(text.split("\n")), span[0] - lead, *span)


def _in_place(file: str, place: _Place, found: Sequence[Run], limits: tuple[int, int]) -> Iterator[Drafted]:
    """Yield the hunks of one place, as few runs in each as can be made and found again by themselves."""
    at = f"{file}::{place.name}" if place.name else file
    left = [_shifted(place, run) for run in found]
    low, high = (min(max(limit - place.old.first, 0), len(place.old.lines)) for limit in limits)
    while left:
        for count in range(1, len(left) + 1):
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
        run.start - place.old.first,
        run.end - place.old.first,
        run.at - place.new.first,
        run.to - place.new.first,
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
