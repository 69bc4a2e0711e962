"""Parse a Python file into nested items (definitions, statements, branches) whose texts joined are the file."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.change.tokens import shifted, words
from patchkit.errors import TreeError
from patchkit.lines import lines_with_ends
from patchkit.tree.limits import require_manageable
from patchkit.tree.nodes import DEFINITIONS, TRIES
from patchkit.tree.source import INVALID, first_line, parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_FUNCTIONS = frozenset({"FunctionDef", "AsyncFunctionDef"})
_IMPORTS = frozenset({"Import", "ImportFrom"})
_EXITS = frozenset({"Return", "Raise", "Continue", "Break"})
_DOCUMENTATION = re.compile(r"""(Expr\(value=Constant\(value=)('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
_FORMS = {"elif": "if", "AsyncFunctionDef": "FunctionDef", "AsyncWith": "With"}
MODULE = "module"
STEP = "    "


class NoOutlineError(ValueError):
    """A text is not Python, or is too long or nested too deep; the message names the reason."""


@dataclass(eq=False)
class Item:
    """A definition, a statement, or a branch of one.

    Its text are the comments and blank lines above it (``lead``), its own lines (``head``) as far as they are not of
    its ``children``, and theirs. ``tail`` is what follows the last statement of a file, ``line`` the number of its
    first own line.
    """

    kind: str
    name: str = ""
    lead: str = ""
    head: str = ""
    children: tuple[Item, ...] = ()
    nodes: tuple[ast.AST, ...] = ()
    tail: str = ""
    line: int = 1
    parent: Item | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for part in self.children:
            part.parent = self

    @cached_property
    def own(self) -> str:
        """The text without the comments and blank lines above."""
        return self.head + "".join(part.text for part in self.children) + self.tail

    @property
    def text(self) -> str:
        """All lines of the item."""
        return self.lead + self.own

    @cached_property
    def dedented(self) -> str:
        """The text without indentation."""
        return shifted(self.lead, self.indent, "") + self.own_dedented

    @cached_property
    def own_dedented(self) -> str:
        """The item's own text without indentation."""
        return shifted(self.own, self.indent, "")

    @property
    def head_dedented(self) -> str:
        """The header without indentation."""
        return shifted(self.head, self.indent, "")

    @cached_property
    def code(self) -> str:
        """The item's meaning, without layout and comments."""
        if self.nodes:
            return "\n".join(map(dumped, self.nodes))
        return "\n".join((" ".join(self.head.split()), *(part.code for part in self.children)))

    @cached_property
    def words(self) -> Sequence[str]:
        """The tokens of its own text."""
        return words(self.own)

    @cached_property
    def inner_lines(self) -> Counter[str]:
        """The lines of its parts that contain code, without indentation."""
        lines = (line.strip() for part in self.children for line in part.own.splitlines())
        return Counter(line for line in lines if len(line) > 2 and not line.startswith("#"))

    @property
    def indent(self) -> str:
        """The indentation of the item's own lines."""
        own = self.head or self.own
        return own[: len(own) - len(own.lstrip(" \t"))]

    @property
    def inner_indent(self) -> str:
        """The indentation of its parts, also if it has none yet."""
        if self.children:
            return self.children[0].indent
        return self.indent + STEP if self.parent is not None else ""

    @property
    def position(self) -> int:
        """Its position among the parts of what contains it."""
        assert self.parent is not None  # Nothing contains a file.
        return self.parent.children.index(self)

    @property
    def lead_behind(self) -> str:
        """The comments and blank lines behind its last part: above what follows, or at the end of the file."""
        item = self
        while item.parent is not None:
            following = item.parent.children[item.position + 1 :]
            if following:
                return following[0].lead
            item = item.parent
        return item.tail

    @property
    def node(self) -> ast.AST | None:
        """Its syntax node, if it is a single one."""
        return self.nodes[0] if len(self.nodes) == 1 else None

    @property
    def header(self) -> str:
        """Its first lines: its own, or those of its first branch."""
        return self.head or (self.children[0].head if self.children else "")

    @property
    def bases(self) -> list[str]:
        """The base classes of a class, as code."""
        nodes = (node for node in self.nodes if isinstance(node, ast.ClassDef))
        return [ast.unparse(base) for node in nodes for base in node.bases]

    @property
    def documentation(self) -> str:
        """The text, without white space, of a statement that is only a string; else an empty string."""
        node = self.node.value if isinstance(self.node, ast.Expr) else None
        value = node.value if isinstance(node, ast.Constant) else None
        return " ".join(value.split()) if isinstance(value, str) else ""

    @property
    def docstring(self) -> Item | None:
        """The docstring of a definition or a file."""
        is_documented = (
            self.children and (self.is_scope or self.is_function) and self.children[0].documentation
        )
        return self.children[0] if is_documented else None

    @property
    def form(self) -> str:
        """Its kind, whether or not it is async or an `elif`."""
        return _FORMS.get(self.kind, self.kind)

    @property
    def is_definition(self) -> bool:
        """Whether it is a class or a function."""
        return self.kind in _FUNCTIONS or self.kind == "ClassDef"

    @property
    def is_function(self) -> bool:
        """Whether it is a function."""
        return self.kind in _FUNCTIONS

    @property
    def is_import(self) -> bool:
        """Whether it is an import."""
        return self.kind in _IMPORTS

    @property
    def is_exit(self) -> bool:
        """Whether the statements after it in its block are unreachable."""
        return self.kind in _EXITS

    @property
    def is_scope(self) -> bool:
        """Whether the order of its parts hardly matters: a class or a file."""
        return self.kind in {"ClassDef", MODULE}

    @property
    def is_unique(self) -> bool:
        """Whether its name identifies it in its scope: a definition, or an assignment of a class or file."""
        is_value = self.kind in {"Assign", "AnnAssign"} and self.name.isidentifier()
        return self.is_definition or (is_value and self.parent is not None and self.parent.is_scope)

    @property
    def site(self) -> str:
        """The dotted name of the innermost definition that it is or that contains it."""
        names = [definition.name for definition in (*self.ancestors, self) if definition.is_definition]
        return ".".join(names)

    @property
    def ancestors(self) -> list[Item]:
        """The items that contain it, outermost first."""
        return [] if self.parent is None else [*self.parent.ancestors, self.parent]

    @property
    def root(self) -> Item:
        """The file."""
        return self if self.parent is None else self.parent.root

    @property
    def function(self) -> Item | None:
        """The outermost function that it is or that contains it."""
        return next((outer for outer in (*self.ancestors, self) if outer.is_function), None)

    def syntax(self) -> Iterator[ast.AST]:
        """Yield the syntax nodes in it, at any depth."""
        return (node for top in self.nodes for node in ast.walk(top))

    def walk(self) -> Iterator[Item]:
        """Yield the item and all items in it."""
        yield self
        for part in self.children:
            yield from part.walk()

    def definitions(self) -> Iterator[Item]:
        """Yield the classes and functions of a scope, those of its classes included."""
        for part in self.children:
            if part.is_definition:
                yield part
            if part.kind == "ClassDef":
                yield from part.definitions()

    def find(self, site: str) -> Item | None:
        """Return the definition with a dotted name, the first of several."""
        item = self
        for name in site.split("."):
            inner = next((part for part in item.flat() if part.is_definition and part.name == name), None)
            if inner is None:
                return None
            item = inner
        return item

    def flat(self) -> Iterator[Item]:
        """Yield the items in it, also in branches, but not those in definitions."""
        for part in self.children:
            yield part
            if not part.is_definition:
                yield from part.flat()


def dedented(items: Iterable[Item]) -> str:
    """Return the text of some items without their indentation."""
    return "".join(item.dedented for item in items)


def dumped(node: ast.AST) -> str:
    """Return the meaning of code, which neither its layout nor that of a docstring changes."""
    return _DOCUMENTATION.sub(_undented, ast.dump(node)).replace(", kind='u'", "")


def _undented(match: re.Match[str]) -> str:
    return f"{match[1]}{inspect.cleandoc(ast.literal_eval(match[2])).strip()!r}"


def outline(source: str, content: bytes | None = None) -> Item:
    """Return a file as one item; NoOutlineError if it is not Python, or too long or deep to be followed.

    Of a file with these bytes the syntax tree is shared.
    """
    if "\f" in source or "\r" in source:
        raise NoOutlineError("it has form feeds or bare carriage returns")
    try:
        require_manageable("it", source.encode("utf-8", "surrogateescape"))
        tree = parsed(source if content is None else content)
    except TreeError as error:
        raise NoOutlineError(str(error)) from None
    except INVALID as error:
        raise NoOutlineError(f"line {getattr(error, 'lineno', None) or 1} is not valid Python") from None
    reader = _Reader(source)
    parts = reader.block(tree.body, 0)
    return Item(MODULE, children=tuple(parts), tail=reader.rest)


class _Reader:
    def __init__(self, source: str) -> None:
        self._lines = lines_with_ends(source)
        self._at = 0

    @property
    def rest(self) -> str:
        return self._text(self._at, len(self._lines))

    def _text(self, start: int, end: int) -> str:
        return "".join(self._lines[start:end])

    def block(self, body: Sequence[ast.stmt], first: int) -> list[Item]:
        """Return the statements of a block that begins on line ``first``."""
        self._at = first
        items: list[Item] = []
        for node in body:
            start = first_line(node)
            if start < self._at:  # It is on the last line of the previous one.
                items[-1] = self._joined(items[-1], node)
                continue
            lead = self._text(self._at, start)
            items.append(self._item(node, start, lead))
            self._at = max(self._at, node.end_lineno or start + 1)
        return items

    def _joined(self, last: Item, node: ast.stmt) -> Item:
        own, end = last.own, node.end_lineno or self._at
        own += self._text(self._at, end)
        self._at = max(self._at, end)
        return Item("Line", "", last.lead, own, nodes=(*last.nodes, node), line=last.line)

    def _item(self, node: ast.stmt, start: int, lead: str) -> Item:
        """Return a statement that begins on line ``start``, with its parts unless one is on the line of its header."""
        self._at = start
        if isinstance(node, (*DEFINITIONS, ast.With, ast.AsyncWith)):
            end = self._header(node.body, start)
            parts = self.block(node.body, end) if end is not None else None
        else:
            if isinstance(node, ast.Match):
                first = self._keyword(node.cases[0].body, node.subject.end_lineno or start + 1, "case")
                self._at = self._behind_code(first)
            end = self._at
            parts = self._clauses(node)
        head = self._text(start, end or start) if parts else self._text(start, node.end_lineno or start + 1)
        return Item(type(node).__name__, _name(node), lead, head, tuple(parts or ()), (node,), line=start + 1)

    def _clauses(self, node: ast.stmt) -> list[Item] | None:
        """Return the branches of a statement; None if it has none, or one on the line of its header."""
        clauses: list[Item] = []
        for keyword, header, body, tests in _branches(node, self._lines):
            line = self._keyword(body, self._at, keyword) if header is None else header
            head = self._header(body, line)
            if head is None:
                return None
            lead = self._text(self._at, line)
            parts = self.block(body, head)
            text = self._text(line, head)
            clauses.append(Item(keyword, "", lead, text, tuple(parts), (*tests, *body), line=line + 1))
        return clauses or None

    def _keyword(self, body: Sequence[ast.stmt], start: int, keyword: str) -> int:
        lines = range(start, first_line(body[0]) + 1)
        return next((line for line in lines if self._lines[line].lstrip().startswith(keyword)), start)

    def _header(self, body: Sequence[ast.stmt], start: int) -> int | None:
        """Return the line behind a header that begins on line ``start``; None if the body is on its line."""
        line = first_line(body[0])
        end = self._behind_code(line)
        own = self._lines[line]
        column = min(body[0].col_offset, len(own))
        if end <= start or own[:column].strip(" \t@"):
            return None
        return end

    def _behind_code(self, line: int) -> int:
        """Return the first of the lines above one that are only comments and blank ones."""
        while line and self._lines[line - 1].strip()[:1] in {"", "#"}:
            line -= 1
        return line


def _branches(
    node: ast.stmt, lines: Sequence[str]
) -> Iterator[tuple[str, int | None, list[ast.stmt], tuple[ast.AST, ...]]]:
    """Yield the branches of a statement: the keyword, the line of its header if that is known, body and test."""
    if isinstance(node, ast.If):
        keyword, line = "if", node.lineno - 1
        while True:
            yield keyword, line, node.body, (node.test,)
            below = node.orelse
            if len(below) == 1 and isinstance(below[0], ast.If) and _is_elif(below[0], lines):
                node, keyword, line = below[0], "elif", below[0].lineno - 1
                continue
            if below:
                yield "else", None, below, ()
            return
    if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
        tests: tuple[ast.AST, ...]
        tests = (node.test,) if isinstance(node, ast.While) else (node.target, node.iter)
        yield "loop", node.lineno - 1, node.body, tests
        if node.orelse:
            yield "else", None, node.orelse, ()
    elif isinstance(node, TRIES):
        yield "try", node.lineno - 1, node.body, ()
        for handler in node.handlers:
            yield "except", handler.lineno - 1, handler.body, (handler.type,) if handler.type else ()
        if node.orelse:
            yield "else", None, node.orelse, ()
        if node.finalbody:
            yield "finally", None, node.finalbody, ()
    elif isinstance(node, ast.Match):
        for case in node.cases:
            yield "case", None, case.body, (case.pattern, *([case.guard] if case.guard else []))


def _is_elif(node: ast.If, lines: Sequence[str]) -> bool:
    return lines[node.lineno - 1].lstrip().startswith("elif")


def _name(node: ast.stmt) -> str:
    """Return the name of a statement: its own, its target, the function it calls, or the module it imports from."""
    if isinstance(node, DEFINITIONS):
        return node.name
    if isinstance(node, ast.ImportFrom):
        return "." * node.level + (node.module or "")
    if isinstance(node, ast.Import):
        return ",".join(alias.name for alias in node.names)
    if isinstance(node, ast.Assign):
        return ",".join(map(ast.unparse, node.targets))
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        return ast.unparse(node.target)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ast.unparse(node.value.func)
    return ""
