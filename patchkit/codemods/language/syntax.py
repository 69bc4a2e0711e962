"""Paths in a syntax tree; replacing a node copies only its ancestors."""

from __future__ import annotations

import dataclasses
import re
import sys
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import libcst as cst
from libcst._nodes.internal import CodegenState

from patchkit import memory
from patchkit.tree import piecewise
from patchkit.tree.nodes import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeGuard

    Edge = tuple[str, int | None]
    Path = tuple[Edge, ...]
# libcst writes code by recursion, with two frames for each term of an `and` and for each part of a string.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 2500))


_WORD = re.compile(r"\w+")
_LAYOUT_PREFIXES = ("whitespace", "leading_lines", "lines_after", "lpar", "rpar", "trailing_whitespace")
_LAYOUT_FIELDS = frozenset(
    {
        "header",
        "footer",
        "semicolon",
        "comma",
        "dot",
        "equal",
        "colon",
        "indent",
        "lbracket",
        "rbracket",
        "lbrace",
    }
    | {"rbrace", "parens", "first_colon", "second_colon", "encoding", "default_indent", "default_newline"}
    | {"has_trailing_newline"}
)


STATEMENTS = frozenset(
    {
        cst.SimpleStatementLine,
        cst.FunctionDef,
        cst.ClassDef,
        cst.If,
        cst.For,
        cst.While,
        cst.With,
        cst.Try,
        cst.TryStar,
        cst.Match,
    }
)

COMPOUND = STATEMENTS - {cst.SimpleStatementLine}


_RANKS = {name: rank for rank, name in enumerate(BLOCKS)}


def _any(_node: cst.CSTNode) -> bool:
    return True


@cache
def meaning_fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """Return the significant fields of a node class: all except white space, comments and punctuation."""
    return tuple(
        field.name
        for field in dataclasses.fields(kind)
        if field.name not in _LAYOUT_FIELDS and not field.name.startswith(_LAYOUT_PREFIXES)
    )


def is_node(value: object) -> TypeGuard[cst.CSTNode]:
    """Return whether ``value`` is a node."""
    # Node classes are abstract, for which `isinstance` is slow.
    return hasattr(value, "deep_clone")


def children(node: cst.CSTNode) -> Iterator[tuple[Edge, cst.CSTNode]]:
    """Yield each meaningful child with the edge to it, in source order."""
    for name in meaning_fields(type(node)):
        value = getattr(node, name)
        if is_node(value):
            yield (name, None), value
        elif isinstance(value, (tuple, list)):
            for index, item in enumerate(value):
                yield (name, index), item


def parts(node: cst.CSTNode) -> list[tuple[str, cst.CSTNode]]:
    """Return each meaningful child with the name of its field, which is faster than ``children``."""
    below: list[tuple[str, cst.CSTNode]] = []
    for name in meaning_fields(type(node)):
        value = getattr(node, name)
        kind = type(value)
        if kind is tuple or kind is list:
            below += [(name, item) for item in value]
        elif value is not None and kind is not str and is_node(value):
            below.append((name, value))
    return below


def descend(
    node: cst.CSTNode, path: Path = (), is_included: Callable[[cst.CSTNode], bool] = _any
) -> Iterator[tuple[Path, cst.CSTNode]]:
    """Yield ``node`` and its descendants with their paths, outermost first; of statements only ``is_included`` ones."""
    pending = [(path, node)]
    while pending:
        where, part = pending.pop()
        if type(part) in STATEMENTS and not is_included(part):
            continue
        yield where, part
        pending += [((*where, step), child) for step, child in children(part)][::-1]


@memory.cached(1 << 14)
def names_in(node: cst.CSTNode) -> frozenset[str]:
    """Return every name at or below ``node``: of variables, attributes, keywords and definitions."""
    names: set[str] = set()
    pending = parts(node)
    while pending:
        _, part = pending.pop()
        if type(part) is cst.Name:
            names.add(part.value)
        elif type(part) in STATEMENTS:  # Most statements stay the same between edits.
            names |= names_in(part)
        else:
            pending += parts(part)
    return frozenset({node.value, *names} if isinstance(node, cst.Name) else names)


@memory.cached(1 << 14)
def words_in(node: cst.CSTNode) -> frozenset[str]:
    """Return every variable at or below ``node`` and every word of its strings, which annotations may be."""
    words: set[str] = set()
    pending = parts(node)
    while pending:
        name, part = pending.pop()
        if type(part) is cst.Name:
            # The name of an attribute or of a keyword argument is not a variable.
            if name not in {"attr", "keyword"}:
                words.add(part.value)
        elif type(part) is cst.SimpleString:
            words.update(_WORD.findall(part.value))
        elif type(part) in STATEMENTS:  # Most statements stay the same between edits.
            words |= words_in(part)
        else:
            pending += parts(part)
    return frozenset(words)


def node_at(root: cst.CSTNode, path: Path) -> cst.CSTNode:
    """Return the node at ``path``."""
    for name, index in path:
        value = getattr(root, name)
        root = value if index is None else value[index]
    return root


def replace_at(root: cst.CSTNode, path: Path, new: cst.CSTNode) -> cst.CSTNode:
    """Return a copy of ``root`` with the node at ``path`` replaced."""
    if not path:
        return new
    (name, index), rest = path[0], path[1:]
    value = getattr(root, name)
    if index is None:
        return root.with_changes(**{name: replace_at(value, rest, new)})
    items = list(value)
    items[index] = replace_at(items[index], rest, new)
    return root.with_changes(**{name: tuple(items)})


def as_statement(node: object) -> cst.BaseStatement:
    """Return ``node`` as a statement. Raise an error if it is not one."""
    return cst.ensure_type(node, cst.BaseStatement)  # type: ignore[type-abstract]


def as_expression(node: object) -> cst.BaseExpression:
    """Return ``node`` as an expression. Raise an error if it is not one."""
    return cst.ensure_type(node, cst.BaseExpression)  # type: ignore[type-abstract]


def order(path: Path) -> tuple[tuple[int, int], ...]:
    """Return a sort key for the paths of statements in source order: a header is before its blocks."""
    return tuple((_RANKS.get(name, -1), -1 if index is None else index) for name, index in path)


def replaced(module: cst.Module, path: Path, new: cst.CSTNode) -> cst.Module:
    """Return the module with the node at ``path`` replaced."""
    return cst.ensure_type(replace_at(module, path, new), cst.Module)


@cache
def _is_block(kind: type[cst.CSTNode]) -> bool:
    return issubclass(kind, (cst.Module, cst.IndentedBlock))


def _has_statements(node: cst.CSTNode) -> TypeGuard[cst.Module | cst.IndentedBlock]:
    # `isinstance` is slow for node classes.
    return _is_block(type(node))


def statements_of(block: cst.CSTNode) -> Sequence[cst.BaseStatement] | None:
    """Return the statements of a module or block, including one on its header's line; ``None`` for other nodes."""
    if _has_statements(block):
        return block.body
    if type(block) is cst.SimpleStatementSuite:
        alone = [small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) for small in block.body]
        lines = [cst.SimpleStatementLine([small]) for small in alone]
        lines[-1] = lines[-1].with_changes(trailing_whitespace=block.trailing_whitespace)
        return tuple(lines)
    return None


def with_body(
    module: cst.Module, path: Path, statements: Sequence[cst.BaseStatement], **changes: object
) -> cst.Module:
    """Return the module with the statements of a block, also one on its header's line, and more of it replaced."""
    block = node_at(module, path)
    if type(block) is cst.SimpleStatementSuite:
        block = cst.IndentedBlock(())
    return replaced(module, path, block.with_changes(body=tuple(statements), **changes))


def blocks_in(
    node: cst.CSTNode, path: Path = (), is_included: Callable[[cst.CSTNode], bool] = _any
) -> Iterator[tuple[Path, cst.Module | cst.BaseSuite]]:
    """Yield every block of statements at or below ``node`` with its path, outermost first.

    Compound statements that are not ``is_included`` are skipped with all their blocks.
    """
    if type(node) is cst.SimpleStatementSuite:
        yield path, node
        return
    if _has_statements(node):
        yield path, node
        for index, statement in enumerate(node.body):
            if type(statement) in COMPOUND and is_included(statement):
                yield from blocks_in(statement, (*path, ("body", index)), is_included)
        return
    for name in BLOCKS:
        value = getattr(node, name, None)
        if is_node(value):
            yield from blocks_in(value, (*path, (name, None)), is_included)
        elif isinstance(value, (tuple, list)):
            for index, item in enumerate(value):
                yield from blocks_in(item, (*path, (name, index)), is_included)


def same(left: object, right: object) -> bool:
    """Return whether two nodes are equal apart from white space, comments, parentheses and quotes."""
    if is_node(left):
        if type(left) is not type(right):
            return isinstance(right, cst.BaseSuite) and _same_blocks(left, right)
        if type(left) is cst.SimpleString:
            return left.evaluated_value == cst.ensure_type(right, cst.SimpleString).evaluated_value
        return all(same(getattr(left, name), getattr(right, name)) for name in meaning_fields(type(left)))
    if isinstance(left, (tuple, list)):
        return (
            isinstance(right, (tuple, list))
            and len(left) == len(right)
            and all(same(a, b) for a, b in zip(left, right, strict=True))
        )
    if isinstance(left, cst.MaybeSentinel) or isinstance(right, cst.MaybeSentinel):
        # A default that libcst fills in is punctuation, except for a parameter such as `*args`.
        return not isinstance(left, cst.Param) and not isinstance(right, cst.Param)
    return left == right


def _same_blocks(left: cst.CSTNode, right: cst.CSTNode) -> bool:
    """Return whether two blocks are equal, even if one is on its header's line."""
    return isinstance(left, cst.BaseSuite) and same(statements_of(left), statements_of(right))


class _State(CodegenState):
    """What libcst writes code to; only its positions, which nobody asks for here, need a context for each node."""

    def record_syntactic_position(self, *_: Any, **__: Any) -> Any:
        return _NO_POSITION


_NO_POSITION = nullcontext()


def code_of(node: cst.CSTNode, indent: str = "    ", newline: str = "\n") -> str:
    """Return a node's source text in a module with this indentation and line end."""
    state = _State(default_indent=indent, default_newline=newline)
    node._codegen(state)
    return "".join(state.tokens)


class _Written:
    """A placeholder in a block for a statement whose source is known."""

    def __init__(self, source: str) -> None:
        self._source = source

    def _codegen(self, state: Any) -> None:
        state.add_token(self._source)


def source_of(module: cst.Module) -> bytes:
    """Return ``module.bytes``; statements and methods that another module has too are not written out again."""
    if not module.has_trailing_newline or type(module) is not cst.Module:
        return module.bytes  # Without the last token, which must not be a whole statement.
    style = module.default_indent, module.default_newline
    body = [_Written(_top_level_code(statement, *style)) for statement in module.body]
    return code_of(module.with_changes(body=body), *style).encode(module.encoding)


def _top_level_code(statement: cst.BaseStatement, indent: str, newline: str) -> str:
    def write() -> str:
        node: cst.CSTNode = statement
        if type(node) is cst.ClassDef and type(node.body) is cst.IndentedBlock and node.body.body:
            block = node.body
            members = [_Written(_member_code(member, block.indent, indent, newline)) for member in block.body]
            node = node.with_changes(body=block.with_changes(body=members))
        return code_of(node, indent, newline)

    return piecewise.source_of(statement, indent, newline, write, is_member=False)


def _member_code(member: cst.BaseStatement, own: str | None, indent: str, newline: str) -> str:
    """Return the source of a statement in a block, which is indented by its ``own`` indent if it has one."""

    def write() -> str:
        block = cst.IndentedBlock([member], cst.TrailingWhitespace(newline=cst.Newline("\n")), own)
        return code_of(block, indent, newline).removeprefix("\n")

    return piecewise.source_of(member, own or indent, newline, write, is_member=True)
