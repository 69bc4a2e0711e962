"""The names that statements and scopes define."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from patchkit.codemods.language import syntax
from patchkit.codemods.language.scope import members

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.codemods.language.scope import Scope


def assigned(statement: cst.CSTNode) -> tuple[str, cst.BaseExpression | None] | None:
    """Return the name and value of an assignment to one name; None for other statements."""
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        small = statement.body[0]
        if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name):
            return small.target.value, small.value
        if isinstance(small, cst.Assign) and len(small.targets) == 1:
            target = small.targets[0].target
            if isinstance(target, cst.Name):
                return target.value, small.value
    return None


def bound_name(statement: cst.CSTNode) -> str | None:
    """Return the name that a definition or an assignment binds, else None."""
    if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
        return statement.name.value
    pair = assigned(statement)
    return pair[0] if pair is not None else None


def insertion_index(scope: Scope, behind: str, before: str) -> int | None:
    """Return the index in a scope's body behind ``behind`` or before ``before``.

    None unless the scope binds one of the names exactly once.
    """
    for name, start in ((behind, 1), (before, 0)):
        indices = [
            index
            for index, statement in enumerate(scope.body, start)
            if name and bound_name(statement) == name
        ]
        if len(indices) == 1:
            return indices[0]
    return None


def bound_names(scope: Scope) -> set[str]:
    """Return the names that a scope's own statements bind to a definition or a value."""
    bound = {name for name in map(bound_name, scope.body) if name is not None}
    return bound | {node.name.value for _, node in members(scope)}


def definitions_like(scope: Scope, statements: Iterable[cst.CSTNode]) -> str:
    """Return the code of a scope's own statements that bind the names which ``statements`` bind."""
    names = set(map(bound_name, statements)) - {None}
    own = dict.fromkeys((*scope.body, *(node for _, node in members(scope))))
    own_found = [statement for statement in own if bound_name(statement) in names]
    return "".join(map(syntax.code_of, own_found))
