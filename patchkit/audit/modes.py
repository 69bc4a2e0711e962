"""Evaluate a tree's forward-mode predicates from the enum's own methods, in any release's spelling."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from patchkit.audit import facts
from patchkit.tree.index import Function, last_name

if TYPE_CHECKING:
    from patchkit.tree.index import Program

    _Arguments = dict[str, bool | None]


class Modes:
    """The members of the tree's forward-mode enum, those that can lack the mirror, and the predicates."""

    def __init__(self, program: Program) -> None:
        self._methods: dict[str, Function] = {}
        members: tuple[str, ...] = ()
        for cls in program.classes_named(facts.MODE_CLASS)[:1]:
            self._methods = cls.methods
            members = tuple(cls.fields)
        self.mirrorless = tuple(step for step in facts.MIRRORLESS_STEPS if step in members or not members)
        if members and "DRAFT_EXTEND_V2" not in members and "DRAFT_EXTEND" in members:
            self.mirrorless += ("DRAFT_EXTEND",)

    def is_predicate(self, name: str) -> bool:
        """Return whether the enum has a predicate of that name."""
        return name in self._methods

    def holds(
        self, predicate: str, mode: str, call: ast.Call | None = None, outer: _Arguments | None = None
    ) -> bool | None:
        """Return whether a predicate is true for a mode; None if its body does more than test the mode.

        ``outer`` are the values of names in the ``call``.
        """
        method = self._methods.get(predicate)
        if method is None:
            return None
        names = [parameter.arg for parameter in method.parameters[1:]]
        defaults = method.node.args.defaults
        given = [*zip(names[len(names) - len(defaults) :], defaults, strict=True)]
        if call is not None:
            given += [
                *zip(names, call.args, strict=False),
                *((word.arg or "", word.value) for word in call.keywords),
            ]
        arguments = {name: _constant(value, outer or {}) for name, value in given}
        for statement in method.node.body:
            if isinstance(statement, ast.Return) and statement.value is not None:
                return self._test(statement.value, mode, arguments)
        return None

    def _test(self, node: ast.expr, mode: str, arguments: _Arguments) -> bool | None:
        if isinstance(node, ast.BoolOp):
            results = [self._test(value, mode, arguments) for value in node.values]
            decisive = isinstance(node.op, ast.Or)
            if decisive in results:
                return decisive
            return None if None in results else not decisive
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self._test(node.operand, mode, arguments)
            return None if inner is None else not inner
        if isinstance(node, ast.IfExp):
            chosen = self._test(node.test, mode, arguments)
            if chosen is None:
                return None
            return self._test(node.body if chosen else node.orelse, mode, arguments)
        if isinstance(node, ast.Compare):
            return compare_mode(node, mode)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return self.holds(node.func.attr, mode, node, arguments)
        return _constant(node, arguments)


def _constant(node: ast.expr, arguments: _Arguments) -> bool | None:
    if isinstance(node, ast.Name):
        return arguments.get(node.id)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None


def compare_mode(node: ast.Compare, mode: str) -> bool | None:
    """Evaluate ``<mode> == ForwardMode.X``, ``is``, ``!=`` and membership in a literal; None for the rest."""
    if len(node.ops) != 1:
        return None
    operator, right = node.ops[0], node.comparators[0]
    if isinstance(right, (ast.Tuple, ast.List, ast.Set)):
        named = {mode_member(element) for element in right.elts}
    else:
        named = {mode_member(right)}
    if None in named:
        return None
    if isinstance(operator, (ast.Eq, ast.Is, ast.In)):
        return mode in named
    if isinstance(operator, (ast.NotEq, ast.IsNot, ast.NotIn)):
        return mode not in named
    return None


def mode_member(node: ast.expr) -> str | None:
    """Return X for ``ForwardMode.X`` and for ``type(batch.forward_mode).X``, else None."""
    if not isinstance(node, ast.Attribute):
        return None
    owner = node.value
    if isinstance(owner, ast.Call) and last_name(owner.func) == "type" and len(owner.args) == 1:
        return node.attr if facts.MODE_NAME.match(last_name(owner.args[0])) else None
    return node.attr if last_name(owner) == facts.MODE_CLASS else None
