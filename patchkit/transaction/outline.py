"""Split Python source into named scopes of units: statements, headers and comments, with their lines and meaning.

Units that differ only in layout are equal, so formatting does not change an outline. A definition is one unit of
the scope that contains it, identified by its name, and a scope of its own.
"""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from patchkit.plan.comments import PREFIX
from patchkit.tree.limits import MAX_BYTES
from patchkit.tree.nesting import MAX_DEPTH, nests_deeper

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Key = tuple[object, ...]
Name = tuple[tuple[str, str], ...]
Imported = tuple[int, str, str, str]
"""An imported name: the number of leading dots, the module, the name, and the name that it binds."""
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_LISTS = ("body", "handlers", "orelse", "finalbody", "cases")


@dataclass(frozen=True)
class Unit:
    """A statement, a header or a comment: lines ``start`` to ``end``, its meaning, and the comments in it.

    ``scope`` is the name of the scope that a definition opens.
    """

    key: Key
    start: int
    end: int
    comments: tuple[str, ...] = ()
    scope: Name | None = None

    @property
    def is_comment(self) -> bool:
        """Whether it is a comment on its own line."""
        return self.key[0] == "#"

    @property
    def is_import(self) -> bool:
        """Whether it is an import."""
        return self.key[0] == "import"


@dataclass
class _Scope:
    name: Name
    start: int
    end: int
    units: list[Unit] = field(default_factory=list)


class Outline:
    """The scopes of a source."""

    def __init__(self, source: bytes) -> None:
        self.lines = source.splitlines(keepends=True)
        self._comments = _comments(source, self.lines)
        self._scopes: dict[Name, _Scope] = {}
        self._counts: Counter[tuple[str, ...]] = Counter()
        module = ast.parse(source)
        self._add_scope((), 0, len(self.lines), module.body, ())
        self._assign_comments()

    @property
    def scopes(self) -> dict[Name, list[Unit]]:
        """The units of each scope, in source order."""
        return {name: scope.units for name, scope in self._scopes.items()}

    def count(self, name: Name) -> int:
        """Return the number of definitions with the dotted name of a scope."""
        return self._counts[tuple(part for part, _ in name)] if name else 1

    def indent(self, unit: Unit) -> bytes:
        """Return the white space before a unit."""
        line = self.lines[unit.start]
        return line[: len(line) - len(line.lstrip())]

    def gap_before(self, unit: Unit) -> range:
        """Return the blank lines directly above a unit."""
        start = unit.start
        while start and not self.lines[start - 1].strip():
            start -= 1
        return range(start, unit.start)

    def gap_after(self, unit: Unit) -> range:
        """Return the blank lines directly below a unit."""
        end = unit.end
        while end < len(self.lines) and not self.lines[end].strip():
            end += 1
        return range(unit.end, end)

    def full_key(self, unit: Unit) -> tuple[object, ...]:
        """Return the whole meaning of a unit: its comments, and for a definition its content."""
        inside: tuple[object, ...] = ()
        if unit.scope is not None:
            inside = tuple(self.full_key(inner) for inner in self._scopes[unit.scope].units)
        return (unit.key, unit.comments, inside)

    def patch_comments(self, units: Sequence[Unit]) -> dict[str, list[int]]:
        """Return the line numbers of the patches' comments in these units, by text."""
        found: dict[str, list[int]] = {}
        for unit in units:
            for line in range(unit.start, unit.end) if unit.scope is None else ():
                text = self._comments.get(line, "")
                if text.startswith(PREFIX) and self.lines[line].lstrip().startswith(b"#"):
                    found.setdefault(text, []).append(line)
        return found

    @staticmethod
    def imported_names(unit: Unit) -> tuple[Imported, ...]:
        """Return the names that an import statement imports, in order; none for any other unit."""
        return cast("tuple[Imported, ...]", unit.key[2]) if unit.is_import else ()

    def imported(self, unit: Unit) -> frozenset[Imported]:
        """Return the names that an import statement imports, as a set."""
        return frozenset(self.imported_names(unit))

    def _add_scope(
        self, name: Name, start: int, end: int, body: Sequence[ast.stmt], header: Sequence[Unit]
    ) -> None:
        self._scopes[name] = _Scope(name, start, end, list(header))
        self._scopes[name].units += self._walk(body, 0, name)

    def _walk(self, body: Sequence[ast.stmt], depth: int, scope: Name) -> Iterator[Unit]:
        for node in body:
            if isinstance(node, _Definition):
                yield self._definition(node, depth, scope)
            elif any(hasattr(node, name) for name in _LISTS):
                yield from self._compound(node, depth, scope)
            else:
                yield self._unit(_key(node, depth), _start(node), node.end_lineno or node.lineno)

    def _unit(self, key: Key, start: int, end: int, scope: Name | None = None) -> Unit:
        inside = () if scope is not None else self._comments_in(start, end)
        return Unit(key, start, end, inside, scope)

    def _comments_in(self, start: int, end: int) -> tuple[str, ...]:
        return tuple(self._comments[line] for line in range(start, end) if line in self._comments)

    def _definition(self, node: _Definition, depth: int, scope: Name) -> Unit:
        start, end = _start(node), node.end_lineno or node.lineno
        decorated = ", ".join(map(ast.unparse, node.decorator_list))
        dotted = (*(part for part, _ in scope), node.name)
        self._counts[dotted] += 1
        name: Name = (*scope, (node.name, ""))
        if name in self._scopes:
            name = (*scope, (node.name, decorated))
        if name in self._scopes:
            name = (*scope, (node.name, f"{decorated} {self._counts[dotted]}"))
        header = self._unit(("header", _header(node)), start, self._header_end(start, node.body))
        self._add_scope(name, start, end, node.body, [header])
        return self._unit(("def", depth, name[-1]), start, end, name)

    def _compound(self, node: ast.stmt, depth: int, scope: Name) -> Iterator[Unit]:
        start = _start(node)
        first = next(getattr(node, name) for name in _LISTS if getattr(node, name, None))
        key = f"{type(node).__name__}", depth, _header(node)
        yield self._unit(key, start, self._header_end(start, first))
        yield from self._walk(getattr(node, "body", []), depth + 1, scope)
        last = _end(getattr(node, "body", []) or first[:1])
        for handler in getattr(node, "handlers", []):
            at = handler.lineno - 1
            yield self._unit(("except", depth, _header(handler)), at, self._header_end(at, handler.body))
            yield from self._walk(handler.body, depth + 1, scope)
            last = _end(handler.body)
        for case in getattr(node, "cases", []):
            at = case.pattern.lineno - 1
            yield self._unit(("case", depth, _header(case)), at, self._header_end(at, case.body))
            yield from self._walk(case.body, depth + 1, scope)
        for word in ("orelse", "finalbody"):
            rest: list[ast.stmt] = getattr(node, word, [])
            if not rest:
                continue
            if word == "orelse" and self._is_elif(rest):
                yield from self._compound(rest[0], depth, scope)
            else:
                at = self._keyword(last, _start(rest[0]))
                yield self._unit((word, depth), at, self._header_end(at, rest))
                yield from self._walk(rest, depth + 1, scope)
            last = _end(rest)

    def _is_elif(self, rest: Sequence[ast.stmt]) -> bool:
        node = rest[0]
        line = self.lines[node.lineno - 1][node.col_offset :]
        return isinstance(node, ast.If) and line.startswith(b"elif")

    def _keyword(self, start: int, end: int) -> int:
        """Return the line of ``else`` or ``finally``: the last line with code before the block's first statement."""
        for line in range(end - 1, start - 1, -1):
            if self.lines[line].strip() and not self.lines[line].lstrip().startswith(b"#"):
                return line
        return end

    def _header_end(self, start: int, body: Sequence[ast.AST]) -> int:
        """Return the end of a block's header, before the blank lines and comments above the block."""
        first = body[0]
        end = _start(first.pattern if isinstance(first, ast.match_case) else first)
        while end - 1 > start and (
            not self.lines[end - 1].strip() or self.lines[end - 1].lstrip().startswith(b"#")
        ):
            end -= 1
        return max(end, start + 1)

    def _assign_comments(self) -> None:
        """Add each comment that is in no unit to the innermost scope around it."""
        covered: set[int] = set()
        for scope in self._scopes.values():
            for unit in scope.units:
                if unit.scope is None:
                    covered.update(range(unit.start, unit.end))
        for line, text in self._comments.items():
            if line in covered:
                continue
            enclosing = [s for s in self._scopes.values() if s.start <= line < s.end]
            innermost = max(enclosing, key=lambda scope: len(scope.name))
            innermost.units.append(Unit(("#", text), line, line + 1))
        for scope in self._scopes.values():
            scope.units.sort(key=lambda unit: unit.start)
            for at, unit in enumerate(scope.units):
                if unit.is_comment:
                    key = (*unit.key, self._comment_depth(scope.units, at))
                    scope.units[at] = replace(unit, key=key)

    def _comment_depth(self, units: Sequence[Unit], at: int) -> object:
        """Return the depth of a comment: that of the next code with its indentation, else of the last before it."""
        indent = self.indent(units[at])
        for unit in (*units[at + 1 :], *reversed(units[:at])):
            if not unit.is_comment and unit.key[0] != "header" and self.indent(unit) == indent:
                return unit.key[1]
        return None


@lru_cache(maxsize=8)
def outline_of(source: bytes) -> Outline:
    """Return a source's outline. Raise SyntaxError, ValueError or RecursionError if it is invalid or too large."""
    if len(source) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES / 2**20:.0f} MiB")
    if nests_deeper(source, MAX_DEPTH):
        raise ValueError(f"more than {MAX_DEPTH} deep")
    return Outline(source)


def _comments(source: bytes, lines: Sequence[bytes]) -> dict[int, str]:
    """Return the comment of each line, without ``#`` and white space."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    decoded = iter([line.decode(encoding).rstrip("\r\n") + "\n" for line in lines])
    try:
        tokens = list(tokenize.generate_tokens(lambda: next(decoded, "")))
    except tokenize.TokenError as error:
        raise SyntaxError(str(error)) from None
    return {
        token.start[0] - 1: token.string.lstrip("#").strip()
        for token in tokens
        if token.type == tokenize.COMMENT
    }


def _start(node: ast.AST) -> int:
    lines: list[int] = [node.lineno]  # type: ignore[attr-defined]
    lines += [each.lineno for each in getattr(node, "decorator_list", [])]
    return min(lines) - 1


def _end(body: Sequence[ast.AST]) -> int:
    last = body[-1]
    end: int = (last.body[-1] if isinstance(last, ast.match_case) else last).end_lineno  # type: ignore[attr-defined]
    return end


def _key(node: ast.stmt, depth: int) -> Key:
    if isinstance(node, ast.Import):
        return ("import", depth, tuple((0, "", a.name, a.asname or a.name) for a in node.names))
    if isinstance(node, ast.ImportFrom):
        names = ((node.level, node.module or "", a.name, a.asname or a.name) for a in node.names)
        return ("import", depth, tuple(names))
    return ("statement", depth, _meaning(node))


def _header(node: ast.AST) -> str:
    """Return the meaning of a compound statement, a definition or a handler without its body."""
    fields = {name: value for name, value in ast.iter_fields(node) if name not in _LISTS}
    return repr({name: _dump(value) for name, value in fields.items()}) + type(node).__name__


def _dump(value: object) -> object:
    if isinstance(value, ast.AST):
        return _meaning(value)
    return [_dump(item) for item in value] if isinstance(value, list) else value


def _meaning(node: ast.AST) -> str:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant):
            inner.kind = None
        if isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Constant):
            text = inner.value.value
            if isinstance(text, str):
                inner.value.value = inspect.cleandoc(text).strip()
    return ast.dump(node)
