"""Parenthesize an expression where its new place binds tighter."""

from __future__ import annotations

import libcst as cst

_ATOMS = (
    cst.Name,
    cst.Attribute,
    cst.Call,
    cst.Subscript,
    cst.BaseNumber,
    cst.BaseString,
    cst.BaseList,
    cst.BaseSet,
    cst.BaseDict,
)
_LOOSER_THAN_ARGUMENTS = (cst.Tuple, cst.GeneratorExp, cst.NamedExpr, cst.Yield)
_OPERAND_PLACES = (
    cst.BaseExpression,
    cst.ComparisonTarget,
    cst.CompFor,
    cst.CompIf,
    cst.StarredElement,
    cst.StarredDictElement,
    cst.FormattedStringExpression,
)


def as_operand(value: cst.BaseExpression) -> cst.BaseExpression:
    """Return ``value`` in parentheses, unless it has them or binds as tightly as a name."""
    if isinstance(value, _ATOMS) or value.lpar:
        return value
    return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def as_argument(value: cst.BaseExpression) -> cst.BaseExpression:
    """Return ``value`` as one of several arguments, in parentheses only if a comma would split it."""
    return as_operand(value) if isinstance(value, _LOOSER_THAN_ARGUMENTS) else value


def in_place_of(old: cst.BaseExpression, new: cst.BaseExpression, parent: cst.CSTNode) -> cst.BaseExpression:
    """Return ``new`` with the parentheses that it needs in place of ``old`` in ``parent``."""
    if old.lpar and not new.lpar:
        return new.with_changes(lpar=old.lpar, rpar=old.rpar)
    return as_operand(new) if isinstance(parent, _OPERAND_PLACES) else as_argument(new)
