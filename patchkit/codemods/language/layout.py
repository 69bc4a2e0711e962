"""What a codemod writes is laid out as black does: broken where too long, appended as its list is."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import libcst as cst

from patchkit.codemods.language import syntax
from patchkit.codemods.language.comment import comments_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.codemods.language.syntax import Path

Item = TypeVar("Item", cst.Arg, cst.Param, cst.Element)

LINE_LENGTH = 88
_SENTINEL = "_patchkit_here_"


def fit(module: cst.Module, path: Path) -> cst.Module:
    """Return the module, the expression at ``path`` broken over lines where its statement is too wide.

    An expression with comments inside stays as it is.
    """
    cut = next(
        end
        for end in range(len(path), -1, -1)
        if isinstance(syntax.node_at(module, path[:end]), cst.BaseStatement)
    )
    statement = _bare(syntax.node_at(module, path[:cut]))
    depth = sum(isinstance(syntax.node_at(module, path[:end]), cst.IndentedBlock) for end in range(cut))
    indent = depth * len(module.default_indent)
    if indent + max(map(len, syntax.code_of(statement).splitlines())) <= LINE_LENGTH:
        return module
    old = cast("cst.BaseExpression", syntax.node_at(statement, path[cut:]))
    if comments_in([old]):
        return module
    mark = cst.Name(_SENTINEL, lpar=old.lpar, rpar=old.rpar)
    marked = syntax.replace_at(statement, path[cut:], mark)
    line = next(line for line in syntax.code_of(marked).splitlines() if _SENTINEL in line)
    extra = len(line) - len(line.lstrip())
    broken = _break(old, indent, extra)
    return cast("cst.Module", syntax.replace_at(module, path, broken))


def fit_statement(module: cst.Module, path: Path) -> cst.Module:
    """Return the module with what a simple statement assigns or calls broken over lines if it is too long."""
    statement = syntax.node_at(module, path)
    if isinstance(statement, cst.SimpleStatementLine) and isinstance(
        statement.body[0], (cst.Assign, cst.AnnAssign, cst.Expr)
    ):
        return fit(module, (*path, ("body", 0), ("value", None)))
    return module


def append(
    items: Sequence[Item],
    fresh: Item,
    opening: cst.BaseParenthesizableWhitespace,
    closing: cst.BaseParenthesizableWhitespace,
) -> tuple[tuple[Item, ...], cst.BaseParenthesizableWhitespace]:
    """Return comma-separated ``items`` with ``fresh`` behind them, and the white space that closes the list.

    ``fresh`` gets a line of its own, and a comma behind it, where the last of ``items`` has one; comments
    stay with the item beside them. ``opening`` and ``closing`` are the white space inside the brackets.
    """
    if not items:
        return (fresh,), closing
    *before, last = items
    # Behind a last comma the white space is the comma's in a call, and the bracket's in a tuple.
    has_comma = isinstance(last.comma, cst.Comma)
    behind_comma = (
        last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else cst.SimpleWhitespace("")
    )
    end = closing if behind_comma.empty else behind_comma
    previous = before[-1].comma if before else None
    step = previous.whitespace_after if isinstance(previous, cst.Comma) else opening
    gap: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
    if isinstance(end, cst.ParenthesizedWhitespace) and isinstance(step, cst.ParenthesizedWhitespace):
        gap = end.with_changes(indent=step.indent, last_line=step.last_line)
    elif isinstance(end, cst.ParenthesizedWhitespace) and comments_in([end]):
        gap = end
    elif before and isinstance(step, cst.ParenthesizedWhitespace):
        gap = cst.ParenthesizedWhitespace(indent=step.indent, last_line=step.last_line)
    if isinstance(end, cst.ParenthesizedWhitespace):
        end = cst.ParenthesizedWhitespace(indent=end.indent, last_line=end.last_line)
    kept = last.with_changes(comma=cst.Comma(whitespace_after=gap))
    if not behind_comma.empty:
        return (*before, kept, fresh.with_changes(comma=cst.Comma(whitespace_after=end))), closing
    return (*before, kept, fresh.with_changes(comma=cst.Comma()) if has_comma else fresh), end


def _bare(statement: cst.CSTNode) -> cst.CSTNode:
    """Return a statement without what stands above it and, for a compound one, with an empty body."""
    bare = statement.with_changes(leading_lines=())
    if isinstance(bare, cst.BaseCompoundStatement):
        bare = bare.with_changes(body=cst.SimpleStatementSuite([cst.Pass()]))
        if isinstance(bare, cst.If):
            bare = bare.with_changes(orelse=None)
    return bare


def _line(width: int) -> cst.ParenthesizedWhitespace:
    return cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(" " * width))


def _break(node: cst.BaseExpression, indent: int, extra: int) -> cst.BaseExpression:
    if isinstance(node, cst.Call) and node.args:
        last = node.args[-1]
        # A bare generator is a call's only argument and takes no comma.
        is_bare = isinstance(last.value, cst.GeneratorExp) and not last.value.lpar
        args = [
            arg.with_changes(
                value=_break_if_long(arg.value, indent, extra + 4, arg.keyword),
                comma=cst.MaybeSentinel.DEFAULT
                if is_bare
                else cst.Comma(whitespace_after=_line(extra if arg is last else extra + 4)),
                whitespace_after_arg=_line(extra) if is_bare else cst.SimpleWhitespace(""),
            )
            for arg in node.args
        ]
        return node.with_changes(args=args, whitespace_before_args=_line(extra + 4))
    if isinstance(node, cst.IfExp) and not node.lpar:
        return node.with_changes(
            lpar=[cst.LeftParen(whitespace_after=_line(extra + 4))],
            whitespace_before_if=_line(extra + 4),
            whitespace_before_else=_line(extra + 4),
            rpar=[cst.RightParen(whitespace_before=_line(extra))],
        )
    if isinstance(node, cst.Tuple) and node.lpar and node.elements:
        elements = [
            element.with_changes(
                comma=cst.Comma(whitespace_after=_line(extra if element is node.elements[-1] else extra + 4))
            )
            for element in node.elements
        ]
        return node.with_changes(elements=elements, lpar=[cst.LeftParen(whitespace_after=_line(extra + 4))])
    return node


def _break_if_long(
    node: cst.BaseExpression, indent: int, extra: int, keyword: cst.Name | None
) -> cst.BaseExpression:
    name = 0 if keyword is None else len(keyword.value) + 1
    is_long = indent + extra + name + len(syntax.code_of(node)) + 1 > LINE_LENGTH
    return _break(node, indent, extra) if is_long else node
