"""What statements bind, use and leave: whether the order of two runs of them matters."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from patchkit.change.imports import all_imported, bound
from patchkit.tree.nodes import EXITS, bound_names, own_statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.change.outline import Item

_BRANCHES = frozenset({"elif", "except", "case"})


def order_matters(one: Sequence[Item], other: Sequence[Item]) -> bool:
    """Return whether one of two runs of statements leaves, or binds a name that the other uses.

    The order of two branches matters unless they test one value for other constants.
    """
    branches = [(a, b) for a in one for b in other if a.kind in _BRANCHES]
    if branches:
        return not all(_are_exclusive(a, b) for a, b in branches)
    bound, used = effects(one)
    other_bound, other_used = effects(other)
    if any(may_exit(item) for item in (*one, *other)) or _called_on(one) & _called_on(other):
        return True
    return bool(bound & (other_bound | other_used) or other_bound & used)


def _called_on(items: Sequence[Item]) -> set[str]:
    """Return the names that statements which are only a call pass on or call a method of, and may so change."""
    calls = (node.value for item in items for node in item.syntax() if isinstance(node, ast.Expr))
    names: set[str] = set()
    for call in (call for call in calls if isinstance(call, ast.Call)):
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        given = (*owner, *call.args, *(word.value for word in call.keywords))
        names |= {node.id for node in given if isinstance(node, ast.Name)}
    return names - {"self", "logger", "log"}


def clash(one: Sequence[Item], other: Sequence[Item]) -> str:
    """Return what two runs of statements or branches both do, so that one may be a variant of the other; or nothing."""
    if one[0].kind in _BRANCHES:
        both = _tested(one) & _tested(other)
        return f"tests {min(both)} too" if both else ""
    tests = _tests(one) & _tests(other)
    both = _targets(one) & _targets(other)
    return f"tests {min(tests)} too" if tests else f"assigns {min(both)} too" if both else ""


def _tests(items: Sequence[Item]) -> set[str]:
    """Return the conditions under which statements run."""
    nodes = (node for item in items for node in item.nodes)
    return {ast.unparse(node.test) for node in nodes if isinstance(node, ast.If)}


def _tested(branches: Sequence[Item]) -> set[str]:
    """Return the names and attributes that the headers of branches read; a part of an attribute is not one."""
    codes: set[str] = set()
    for branch in branches:
        for top in branch.nodes[:1]:
            nodes = [node for node in ast.walk(top) if isinstance(node, (ast.Name, ast.Attribute))]
            inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
            inner |= {id(node.func) for node in ast.walk(top) if isinstance(node, ast.Call)}
            codes |= {ast.unparse(node) for node in nodes if id(node) not in inner}
    return codes


def _are_exclusive(one: Item, other: Item) -> bool:
    """Return whether two branches compare one value with other constants."""
    (value, constants), (other_value, other_constants) = (_compared(item) for item in (one, other))
    return bool(value) and value == other_value and constants.isdisjoint(other_constants)


def _compared(branch: Item) -> tuple[str, frozenset[str]]:
    """Return the value that a branch compares, and the constants of which it has to be one; nothing for other tests."""
    test = branch.nodes[0]
    patterns = test.patterns if isinstance(test, ast.MatchOr) else [test]
    if all(isinstance(pattern, (ast.MatchValue, ast.MatchSingleton)) for pattern in patterns):
        return "match", frozenset(map(ast.unparse, patterns))
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return "", frozenset()
    (right,) = test.comparators
    is_one = isinstance(test.ops[0], (ast.Eq, ast.Is))
    is_in = isinstance(test.ops[0], ast.In) and isinstance(right, (ast.Tuple, ast.List, ast.Set))
    constants = [right] if is_one else right.elts if is_in else []  # type: ignore[attr-defined]
    if not constants or not all(isinstance(constant, ast.Constant) for constant in constants):
        return "", frozenset()
    return ast.unparse(test.left), frozenset(map(ast.unparse, constants))


def _targets(items: Sequence[Item]) -> set[str]:
    nodes = [node for item in items for node in item.syntax()]
    # What is added to twice has both.
    augmented = {id(node.target) for node in nodes if isinstance(node, ast.AugAssign)}
    names = set(map(bound, all_imported(items)))
    for node in nodes:
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            is_set = isinstance(node.ctx, ast.Store) and id(node) not in augmented
            names |= {ast.unparse(node)} if is_set else set()
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
    return names


def effects(items: Sequence[Item]) -> tuple[set[str], set[str]]:
    """Return the names and attributes that statements bind, and those that they use."""
    bound: set[str] = set()
    used: set[str] = set()
    for node in (node for item in items for node in item.syntax()):
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            name = ast.unparse(node.value) if isinstance(node, ast.Subscript) else ast.unparse(node)
            (bound if isinstance(node.ctx, (ast.Store, ast.Del)) else used).add(name)
        elif isinstance(node, ast.stmt):
            bound.update(bound_names(node))
    return bound, used


def may_leave(item: Item) -> bool:
    """Return whether a statement may leave its function: also a call alone or an assertion, which may raise."""
    node = item.node
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, (ast.Call, ast.Await))
    return is_call or isinstance(node, ast.Assert) or may_exit(item)


def may_exit(item: Item) -> bool:
    """Return whether a statement may leave its block."""
    return any(isinstance(statement, EXITS) for statement in own_statements(item.nodes))
