"""Evaluate a condition on a server's options, such as ``speculative_eagle_topk > 1 and draft_backend == "fa3"``."""

from __future__ import annotations

import ast
import operator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

COMPARISONS: dict[type[ast.cmpop], Callable[..., bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, several: one in several,
    ast.NotIn: lambda one, several: one not in several,
}
_ALLOWED_NODES = (
    ast.BoolOp,
    ast.And,
    ast.Or,
    ast.Not,
    ast.Compare,
    *COMPARISONS,
    ast.Name,
    ast.Load,
    ast.Tuple,
)
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)

UNKNOWN = object()
"""The value of an option that cannot be determined before the server starts."""


@lru_cache(maxsize=256)
def parsed(text: str) -> ast.expr:
    """Return a condition's syntax tree. Raise ValueError if it is malformed."""
    try:
        expression = ast.parse(f"(\n{text}\n)", mode="eval").body  # May have several lines.
    except (SyntaxError, ValueError, RecursionError):
        raise ValueError(f"{text!r} is not a Python expression") from None
    for node in ast.walk(expression):
        is_negation = isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub))
        is_plain = isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float, type(None)))
        is_minus = isinstance(node, ast.USub)
        if not (isinstance(node, _ALLOWED_NODES) or is_negation or is_plain or is_minus):
            raise ValueError(
                f"{ast.unparse(node) if isinstance(node, ast.expr) else text!r}: a condition consists of the names of "
                "options, constants, comparisons, `and`, `or` and `not`"
            )
    return expression


def names(text: str) -> set[str]:
    """Return the names of the options that a condition reads."""
    return {node.id for node in ast.walk(parsed(text)) if isinstance(node, ast.Name)}


def holds(text: str, value_of: Callable[[str], object]) -> bool:
    """Return whether a condition holds or, because an option is ``UNKNOWN``, may hold."""
    return _is_true(parsed(text), value_of) is not False


def _is_true(node: ast.expr, value_of: Callable[[str], object]) -> bool | None:
    """Return whether an expression is true, None if that depends on an unknown option."""
    if isinstance(node, ast.BoolOp):
        decides = isinstance(node.op, ast.Or)
        several = [_is_true(value, value_of) for value in node.values]
        return decides if decides in several else None if None in several else not decides
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        operand = _is_true(node.operand, value_of)
        return None if operand is None else not operand
    if isinstance(node, ast.Compare):
        values = [_value(node, value_of) for node in (node.left, *node.comparators)]
        pairs = zip(values, node.ops, values[1:], strict=False)
        compared = [_compared(left, type(op), right) for left, op, right in pairs]
        return False if False in compared else None if None in compared else True
    value = _value(node, value_of)
    return None if value is UNKNOWN else bool(value)


def _compared(left: object, op: type[ast.cmpop], right: object) -> bool | None:
    parts = right if isinstance(right, tuple) else (right,)
    if left is UNKNOWN or UNKNOWN in parts:
        is_in = op in (ast.In, ast.NotIn) and left is not UNKNOWN and left in parts
        return (op is ast.In) if is_in else None
    if op in _ORDERED and not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
        return False  # An option that is not given, or that this tree does not have.
    if op in (ast.In, ast.NotIn):
        return (left in parts) is (op is ast.In)
    return bool(COMPARISONS[op](left, right))


def _value(node: ast.expr, value_of: Callable[[str], object]) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return value_of(node.id)
    if isinstance(node, ast.Tuple):
        return tuple(_value(element, value_of) for element in node.elts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _value(node.operand, value_of)
        return -value if isinstance(value, (int, float)) else value
    result = _is_true(node, value_of)
    return UNKNOWN if result is None else result
