"""What statements bind, use and leave: whether the order of two runs of them matters."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from patchkit.tree.nodes import EXITS, bound_names, own_statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.change.outline import Item


def order_matters(one: Sequence[Item], other: Sequence[Item]) -> bool:
    """Return whether one of two runs of statements leaves, or binds a name that the other uses."""
    bound, used = _effects(one)
    other_bound, other_used = _effects(other)
    if any(may_exit(each) for each in (*one, *other)):
        return True
    return bool(bound & (other_bound | other_used) or other_bound & used)


def _effects(items: Sequence[Item]) -> tuple[set[str], set[str]]:
    """Return the names and attributes that statements bind, and those that they use."""
    bound: set[str] = set()
    used: set[str] = set()
    for item in items:
        for top in item.nodes:
            for node in ast.walk(top):
                if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
                    name = ast.unparse(node.value) if isinstance(node, ast.Subscript) else ast.unparse(node)
                    (bound if isinstance(node.ctx, (ast.Store, ast.Del)) else used).add(name)
                elif isinstance(node, ast.stmt):
                    bound.update(bound_names(node))
    return bound, used


def may_exit(item: Item) -> bool:
    """Return whether a statement may leave its block."""
    return any(isinstance(each, EXITS) for each in own_statements(item.nodes))
