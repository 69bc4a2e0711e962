"""Templates: write code with the names that a pattern bound."""

from __future__ import annotations

import ast
import re
import textwrap
from typing import TYPE_CHECKING

import libcst as cst

from patchkit.codemods.language import syntax
from patchkit.codemods.language.placeholders import (
    STATEMENTS,
    VARIABLE,
    Bindings,
    PatternError,
    Value,
    decoded,
    lone_expression,
    parse,
    placeholders,
    run_name,
    variable,
)
from patchkit.codemods.language.precedence import as_argument, as_operand

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEFT = re.compile(rf"^( *)(?:{STATEMENTS}(\w+)|\.\.\.)$", re.MULTILINE)


def _expression(name: str, bindings: Bindings) -> cst.BaseExpression:
    value = bindings.get(name)
    if not isinstance(value, cst.BaseExpression):
        raise PatternError(f"${name} is not bound to an expression here")
    return value


class _Fill(cst.CSTTransformer):
    def __init__(self, bindings: Bindings) -> None:
        self.bindings = bindings

    def leave_Name(  # noqa: N802
        self, original_node: cst.Name, updated_node: cst.Name
    ) -> cst.BaseExpression:
        name = variable(original_node)
        if name is None:
            return updated_node
        return as_operand(_expression(name, self.bindings).deep_clone())

    def leave_Arg(  # noqa: N802
        self, original_node: cst.Arg, updated_node: cst.Arg
    ) -> cst.Arg:
        name = variable(original_node.value)
        if name is None:
            return updated_node
        return updated_node.with_changes(value=as_argument(_expression(name, self.bindings).deep_clone()))

    def leave_EmptyLine(  # noqa: N802
        self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine
    ) -> cst.EmptyLine:
        # A blank line without indentation in a template stays blank if the template is indented.
        return updated_node if original_node.comment else updated_node.with_changes(indent=False)

    def leave_SimpleStatementLine(  # noqa: N802
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        name = run_name(original_node)
        if name is None or name == "_":
            return updated_node
        statements = self.bindings.get(name)
        if not isinstance(statements, tuple):
            raise PatternError(f"$${name} is not bound to statements here")
        return cst.FlattenSentinel(tuple(syntax.as_statement(statement) for statement in statements))


def render(template: str, bindings: Bindings) -> tuple[cst.BaseStatement, ...]:
    """Return the statements of ``template`` with its placeholders filled in.

    Raise PatternError for one that is missing, and for an expression where Python takes only a name.
    """
    module = parse(template)
    header = module.header
    try:
        filled = module.with_changes(header=()).visit(_Fill(bindings))
        if bindings:
            ast.parse(filled.code)
    except (cst.CSTValidationError, SyntaxError):
        names = sorted(placeholder.lstrip("$") for placeholder in placeholders(template))
        bound = (
            f"${name} is `{textwrap.shorten(syntax.code_of(_expression(name, bindings)), 60)}`"
            for name in names
            if isinstance(bindings.get(name), cst.BaseExpression)
        )
        what = textwrap.shorten(template, 60)
        raise PatternError(f"`{what}` is not Python where {' and '.join(bound)}") from None
    body = [syntax.as_statement(statement) for statement in filled.body]
    if header and body:
        first = body[0]
        body[0] = first.with_changes(leading_lines=(*header, *first.leading_lines))  # type: ignore[attr-defined]
    return tuple(body)


def below_blank_lines(template: str, rendered: Sequence[cst.BaseStatement]) -> tuple[cst.BaseStatement, ...]:
    """Return the statements of a template below as many blank lines as it begins with."""
    first, *rest = rendered
    blank = len(template) - len(template.lstrip("\n"))
    lead = (*(cst.EmptyLine(indent=False),) * blank, *first.leading_lines)  # type: ignore[attr-defined]
    return (first.with_changes(leading_lines=lead), *rest)


def render_expression(template: str, bindings: Bindings) -> cst.BaseExpression:
    """Return the one expression of ``template`` with its placeholders filled in. Raise PatternError otherwise."""
    statements = render(template, bindings)
    value = lone_expression(statements[0]) if len(statements) == 1 else None
    if value is None:
        raise PatternError(f"not one expression: {template.strip()!r}")
    return value


def readable(text: str, bindings: Bindings) -> str:
    """Return a pattern or template as plain code, with what its names are bound to.

    A ``$name`` that is not bound is the word ``name``, and statements that are not known are a comment.
    """
    written = placeholders(text)
    left: dict[str, Value] = {}
    for line in written:
        name = line.lstrip("$")
        if line.startswith("$$"):
            is_tuple = isinstance(bindings.get(name), tuple)
            gap = cst.SimpleStatementLine([cst.Expr(cst.Name(f"{STATEMENTS}{name}"))])
            left |= {} if is_tuple else {name: (gap,)}
        elif not isinstance(bindings.get(name), cst.BaseExpression):
            left[name] = cst.Name(name)
    try:
        code = "".join(map(syntax.code_of, render(text, {**bindings, **left}))) if written else text
    except PatternError:  # Such as the header of a function.
        code = re.sub(rf"{STATEMENTS}|{VARIABLE}|\$(?=\w)", "", decoded(text))
    return _LEFT.sub(_comment, code).strip()


def _comment(match: re.Match[str]) -> str:
    name = match[2]
    return f"{match[1]}# ... ({name})" if name and name != "_" else f"{match[1]}# ..."
