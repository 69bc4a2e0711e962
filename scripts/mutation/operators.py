"""Mutations of Python: each replaces one node by another.

Imports, type annotations, docstrings, strings, ``if TYPE_CHECKING`` blocks and the messages of exceptions and
assertions are not mutated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Iterator

DELETED = "statement deleted"
_COMPARISONS: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.Equal: cst.NotEqual,
    cst.NotEqual: cst.Equal,
    cst.LessThan: cst.LessThanEqual,
    cst.LessThanEqual: cst.LessThan,
    cst.GreaterThan: cst.GreaterThanEqual,
    cst.GreaterThanEqual: cst.GreaterThan,
    cst.In: cst.NotIn,
    cst.NotIn: cst.In,
    cst.Is: cst.IsNot,
    cst.IsNot: cst.Is,
}
_ARITHMETIC: dict[type[cst.CSTNode], type[cst.CSTNode]] = {
    cst.Add: cst.Subtract,
    cst.Subtract: cst.Add,
    cst.Multiply: cst.FloorDivide,
    cst.FloorDivide: cst.Multiply,
    cst.Divide: cst.Multiply,
    cst.Modulo: cst.Multiply,
    cst.BitAnd: cst.BitOr,
    cst.BitOr: cst.BitAnd,
    cst.Minus: cst.Plus,
    cst.AddAssign: cst.SubtractAssign,
    cst.SubtractAssign: cst.AddAssign,
    cst.MultiplyAssign: cst.FloorDivideAssign,
}
_CONSTANTS = {"True": "False", "False": "True", "None": "True"}
_NOT_MUTATED = (cst.Annotation, cst.Import, cst.ImportFrom, cst.Raise)
_BINDS_LOOSELY = (cst.BooleanOperation, cst.IfExp, cst.Lambda, cst.NamedExpr)

Replacement = tuple[str, cst.CSTNode]


@dataclass(frozen=True, eq=False)
class Break:
    """One mutation of a text; ``unit`` is the function or class that contains it, empty outside of any."""

    operator: str
    unit: str
    module: cst.Module
    old: cst.CSTNode
    new: cst.CSTNode

    @cached_property
    def code(self) -> str:
        """The whole mutated text, made when it is first needed: a sample needs few of thousands."""
        return cst.ensure_type(self.module.deep_replace(self.old, self.new), cst.Module).code


def breaks(code: str) -> list[Break]:
    """Return every mutation of ``code``, in source order."""
    module = cst.parse_module(code)
    return [Break(operator, unit, module, old, new) for unit, old, operator, new in _walk(module, ())]


def _walk(
    node: cst.CSTNode, names: tuple[str, ...], not_deleted: tuple[cst.CSTNode, ...] = ()
) -> Iterator[tuple[str, cst.CSTNode, str, cst.CSTNode]]:
    if isinstance(node, _NOT_MUTATED) or _is_for_type_checkers(node):
        return
    for operator, new in _replacements(node):
        if not (operator == DELETED and any(node is statement for statement in not_deleted)):
            yield ".".join(names), node, operator, new
    if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        names = (*names, node.name.value)
    unmutated = _unmutated_child(node)
    for child in node.children:
        if child is not unmutated:
            yield from _walk(child, names, (*not_deleted, *_last_return(node)))


def _is_for_type_checkers(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.If) and isinstance(node.test, cst.Name) and node.test.value == "TYPE_CHECKING"


def _unmutated_child(node: cst.CSTNode) -> cst.CSTNode | None:
    """Return the child that is not mutated: an assertion's message, the None of ``is None``."""
    if isinstance(node, cst.Assert):
        return node.msg
    return node.comparator if isinstance(node, cst.ComparisonTarget) and _is_none_test(node) else None


def _last_return(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """Return a function's last statement if it is a return; deleting it is the same as returning None."""
    if not isinstance(node, cst.FunctionDef):
        return ()
    last = node.body.body[-1]
    is_return = isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return)
    return (last,) if is_return else ()


def _is_none(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _is_none_test(target: cst.ComparisonTarget) -> bool:
    return _is_none(target.comparator) and isinstance(target.operator, (cst.Is, cst.IsNot))


def _replacements(node: cst.CSTNode) -> Iterator[Replacement]:
    yield from _of_expression(node)
    yield from _of_condition(node)
    yield from _of_statement(node)


def _of_expression(node: cst.CSTNode) -> Iterator[Replacement]:
    kind = type(node)
    if isinstance(node, cst.ComparisonTarget):
        swapped = _COMPARISONS[type(node.operator)]()
        name = "None test swapped" if _is_none_test(node) else "comparison swapped"
        yield name, node.with_changes(operator=swapped)
    elif isinstance(node, (cst.And, cst.Or)):
        other = cst.Or if kind is cst.And else cst.And
        yield "and/or swapped", other(node.whitespace_before, node.whitespace_after)
    elif kind in _ARITHMETIC:
        yield "arithmetic swapped", _ARITHMETIC[kind]()
    elif isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        yield "boolean negated", _in_parentheses_of(node, node.expression)
    elif isinstance(node, cst.BooleanOperation):
        for side in ("left", "right"):
            yield from _negated(node, side)
    elif isinstance(node, cst.Integer):
        yield "integer plus one", node.with_changes(value=str(int(node.value, 0) + 1))
    elif isinstance(node, cst.Name) and node.value in _CONSTANTS:
        yield "constant swapped", node.with_changes(value=_CONSTANTS[node.value])
    elif isinstance(node, cst.Call):
        for index, argument in enumerate(node.args):
            if argument.keyword is not None:
                rest = (*node.args[:index], *node.args[index + 1 :])
                yield "keyword argument dropped", node.with_changes(args=rest)


def _of_condition(node: cst.CSTNode) -> Iterator[Replacement]:
    if not isinstance(node, (cst.If, cst.IfExp, cst.While, cst.CompIf)):
        return
    yield from _negated(node, "test")
    if not (isinstance(node.test, cst.Name) and node.test.value in _CONSTANTS):
        # An endless loop tests no more than one that does not run.
        forced = ("False",) if isinstance(node, cst.While) else ("True", "False")
        for constant in forced:
            yield f"condition always {constant}", node.with_changes(test=cst.Name(constant))


def _negated(node: cst.CSTNode, field: str) -> Iterator[Replacement]:
    """Negate an operand, unless another operator does so: comparisons, constants, negations."""
    value: cst.BaseExpression = getattr(node, field)
    is_negation = isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.Not)
    is_constant = isinstance(value, cst.Name) and value.value in _CONSTANTS
    if is_negation or is_constant or isinstance(value, (cst.Comparison, cst.BooleanOperation)):
        return
    if isinstance(value, _BINDS_LOOSELY) and not value.lpar:
        value = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    yield "boolean negated", node.with_changes(**{field: cst.UnaryOperation(cst.Not(), value)})


def _in_parentheses_of(outer: cst.BaseExpression, inner: cst.BaseExpression) -> cst.BaseExpression:
    return inner.with_changes(lpar=[*outer.lpar, *inner.lpar], rpar=[*inner.rpar, *outer.rpar])


def _of_statement(node: cst.CSTNode) -> Iterator[Replacement]:
    if isinstance(node, cst.SimpleStatementLine):
        if _has_effect(node.body[0]):
            yield DELETED, node.with_changes(body=[cst.Pass()])
    elif isinstance(node, cst.Return) and node.value is not None and not _is_none(node.value):
        blank = cst.SimpleWhitespace(" ")
        yield "return value None", node.with_changes(value=cst.Name("None"), whitespace_after_return=blank)


def _has_effect(statement: cst.BaseSmallStatement) -> bool:
    if isinstance(statement, cst.Expr):
        return not isinstance(
            statement.value, (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString, cst.Ellipsis)
        )
    if isinstance(statement, cst.AnnAssign):
        return statement.value is not None
    return not isinstance(statement, (cst.Import, cst.ImportFrom, cst.Pass, cst.Global, cst.Nonlocal))
