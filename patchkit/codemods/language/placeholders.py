"""Parse patterns and templates: Python with ``$name`` for an expression and ``$$name`` for statements."""

from __future__ import annotations

import re
import textwrap
from functools import cache

import libcst as cst

from patchkit.tree.nesting import NestingError, parse_module

VARIABLE = "_patchkit_var_"
STATEMENTS = "_patchkit_run_"
_PLACEHOLDER = re.compile(r"\$(\$?)([A-Za-z_][A-Za-z0-9_]*)")

Value = cst.CSTNode | tuple[cst.CSTNode, ...]
Bindings = dict[str, Value]


class PatternError(ValueError):
    """The text is not a valid pattern."""


def _encode(text: str) -> str:
    return _PLACEHOLDER.sub(
        lambda m: (STATEMENTS if m[1] else VARIABLE) + m[2], textwrap.dedent(text).strip("\n")
    )


def decoded(code: str) -> str:
    """Return the source of a pattern with its placeholders as written."""
    return code.replace(STATEMENTS, "$$").replace(VARIABLE, "$")


@cache
def parse(text: str) -> cst.Module:
    """Return the module for a text with placeholders. Raise PatternError if it is not valid Python."""
    return _parsed(_encode(text), text, "not Python with $names")


@cache
def as_written(code: str) -> cst.Module:
    """Return the module for a text without placeholders. Raise PatternError if it is not valid Python."""
    return _parsed(code.strip("\n"), code, "not Python")


def _parsed(source: str, text: str, what: str) -> cst.Module:
    try:
        return parse_module(f"{source}\n")
    except NestingError as error:
        raise PatternError(str(error)) from None
    except cst.ParserSyntaxError as error:
        raise PatternError(f"{what}: {error.message} in {text.strip().splitlines()[0]!r}") from error


def variable(node: object) -> str | None:
    """Return the name of a ``$name``; ``None`` for any other node."""
    # `isinstance` is slow for the classes of nodes, which are abstract.
    if type(node) is cst.Name and node.value.startswith(VARIABLE):
        return node.value[len(VARIABLE) :]
    return None


def lone_expression(statement: object) -> cst.BaseExpression | None:
    """Return the expression that is the whole statement; ``None`` for any other statement."""
    if type(statement) is cst.SimpleStatementLine and len(statement.body) == 1:
        small = statement.body[0]
        if type(small) is cst.Expr:
            return small.value
    return None


def run_name(statement: object) -> str | None:
    """Return the name of a run of statements, ``_`` for ``...``; ``None`` for any other statement."""
    value = lone_expression(statement)
    if type(value) is cst.Ellipsis:
        return "_"
    if type(value) is cst.Name and value.value.startswith(STATEMENTS):
        return value.value[len(STATEMENTS) :]
    return None


def placeholders(text: str) -> frozenset[str]:
    """Return the placeholders in a pattern or template, as written."""
    return frozenset(match[0] for match in _PLACEHOLDER.finditer(text))
