"""Split the state of a function by a test into the states where it is true and false."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.audit.interpreter.frame import ENUM, Frame
from patchkit.audit.modes import compare_mode
from patchkit.audit.rules import Use
from patchkit.audit.values import NONE, PRESENT, SOME, Environment, Refinement, Value
from patchkit.tree.index import last_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    _Sides = tuple[Environment | None, Environment | None]
    """The states in which a test is true and false; None for one that is unreachable."""

_ORDERINGS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_EQUALITIES = (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)


class Conditions(Frame):
    """The tests of one run."""

    def condition(self, node: ast.expr, env: Environment) -> _Sides:
        """Return the states in which the test is true and false; None for an unreachable one."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            holds, fails = self.condition(node.operand, env)
            return fails, holds
        if isinstance(node, ast.BoolOp):
            return self._boolean_operation(node, env)
        if isinstance(node, ast.Compare):
            return self._comparison(node, env)
        if isinstance(node, ast.Call):
            return self._call_condition(node, env)
        return self._truthiness(self.value(node, env), env)

    def _boolean_operation(self, node: ast.BoolOp, env: Environment) -> _Sides:
        wanted = isinstance(node.op, ast.Or)
        current: Environment | None = env
        decided: Environment | None = None
        for operand in node.values:
            if current is None:
                break
            holds, fails = self.condition(operand, current)
            stop, current = (holds, fails) if wanted else (fails, holds)
            decided = self.merge(decided, stop)
        return (decided, current) if wanted else (current, decided)

    def _comparison(self, node: ast.Compare, env: Environment) -> _Sides:
        operator, right = node.ops[0], node.comparators[0]
        single = len(node.ops) == 1
        positive = isinstance(operator, (ast.Is, ast.Eq))
        if single and isinstance(operator, _EQUALITIES) and is_none(right):
            fails, holds = self._split(self.value(node.left, env), env)
            return (holds, fails) if positive else (fails, holds)
        if single and isinstance(operator, (ast.In, ast.NotIn)) and is_none(node.left):
            present, absent = self._with_all(right, env), env.copy()
            return (absent, present) if isinstance(operator, ast.In) else (present, absent)
        left = self.value(node.left, env)
        if single and left.modes is not None:
            decided = {mode: compare_mode(node, mode) for mode in left.modes}
            if None not in decided.values():
                return self._by_mode(left, decided, env)
        compared = self._compare(node, env)
        if single and isinstance(operator, _EQUALITIES) and _are_members(compared):
            alike = compared[0].kind == compared[1].kind
            return (env, None) if alike is positive else (None, env)
        return env, env.copy()

    def _split(self, value: Value, env: Environment) -> _Sides:
        """Return the states in which a value is present and None."""
        present, absent = env.copy(), env.copy()
        with_value = present.narrow(value, SOME)
        without_value = absent.narrow(value, NONE)
        return (present if with_value else None), (absent if without_value else None)

    def _by_mode(self, value: Value, decided: dict[str, bool | None], env: Environment) -> _Sides:
        sides: list[Environment | None] = []
        for wanted in (True, False):
            modes = frozenset(mode for mode, holds in decided.items() if holds is not (not wanted))
            side = env.copy() if modes else None
            if side is not None:
                side.restrict_modes(value, modes)
                side.mode_checked = side.mode_checked or None not in decided.values()
            sides.append(side)
        return sides[0], sides[1]

    def _call_condition(self, node: ast.Call, env: Environment) -> _Sides:
        function = node.func
        name = last_name(function)
        if name == "isinstance" and len(node.args) == 2:
            return self._instance_test(node, env)
        if name == "bool" and len(node.args) == 1:
            return self.condition(node.args[0], env)
        if name in ("all", "any") and len(node.args) == 1:
            verdict = self._quantified(name, node.args[0], env)
            if verdict is not None:
                return verdict
        if isinstance(function, ast.Attribute):
            fixed = self.solver.fixed_answer(function)
            if fixed is not None:
                return (env, None) if fixed else (None, env)
            if self.solver.modes.is_predicate(name):
                base = self.value(function.value, env)
                if base.modes is not None:
                    decided = {mode: self.solver.modes.holds(name, mode, node) for mode in base.modes}
                    return self._by_mode(base, decided, env)
        return self._truthiness(self.value(node, env), env)

    def _quantified(self, name: str, test: ast.expr, env: Environment) -> _Sides | None:
        if not isinstance(test, (ast.GeneratorExp, ast.ListComp)) or len(test.generators) != 1:
            return None
        generator = test.generators[0]
        checks = isinstance(test.elt, ast.Compare) and is_none(test.elt.comparators[0])
        if not checks or not isinstance(generator.iter, (ast.Tuple, ast.List)) or generator.ifs:
            return None
        assert isinstance(test.elt, ast.Compare)
        absent = isinstance(test.elt.ops[0], ast.Is)
        if absent == (name == "all"):
            return None
        present, other = self._with_all(generator.iter, env), env.copy()
        return (present, other) if name == "all" else (other, present)

    def _with_all(self, elements: ast.expr, env: Environment) -> Environment | None:
        """Return the state in which no element of a tuple or list is None."""
        present: Environment | None = env
        for element in elements.elts if isinstance(elements, (ast.Tuple, ast.List)) else ():
            if present is not None:
                present, _ = self._split(self.value(element, present), present)
        return present

    def _instance_test(self, node: ast.Call, env: Environment) -> _Sides:
        value = self.value(node.args[0], env)
        wanted = last_name(node.args[1])
        if value.kind in ("list", "Tensor") and wanted in ("list", "Tensor") and value.nulls == SOME:
            return (env, None) if value.kind == wanted else (None, env)
        present, _ = self._split(value, env)
        if present is not None and wanted:
            for cell, held in present.cells.items():
                if held.identity == value.identity and held.cls is None and self.solver.class_named(wanted):
                    present.cells[cell] = replace(held, cls=wanted)
        return present, env.copy()

    def _truthiness(self, value: Value, env: Environment) -> _Sides:
        if value.truth is not None:
            return (env, None) if value.truth else (None, env)
        if value.refinement is not None:
            holds, fails = env.copy(), env.copy()
            truly = holds.apply(value.refinement.when_true)
            falsely = fails.apply(value.refinement.when_false)
            return (holds if truly else None), (fails if falsely else None)
        if value.nulls == NONE:
            return None, env
        present, _ = self._split(value, env)
        return present, env.copy()

    def _compare(self, node: ast.Compare, env: Environment) -> list[Value]:
        """Evaluate and return the operands of a comparison that is not a None check."""
        sides = [node.left, *node.comparators]
        values = [self.value(side, env) for side in sides]
        for index, operator in enumerate(node.ops):
            if isinstance(operator, _ORDERINGS):
                for side, other in ((index, index + 1), (index + 1, index)):
                    if values[other].nulls != NONE:
                        self.use(Use.COMPARISON, node, values[side], env, sides[side])
            elif isinstance(operator, (ast.In, ast.NotIn)):
                self.use(Use.ITERATION, node, values[index + 1], env, sides[index + 1])
        return values

    def implied(self, node: ast.expr, env: Environment) -> Refinement | None:
        """Return what an expression's truth implies for other values; None if nothing."""
        holds, fails = self.condition(node, env.copy())
        refinement = Refinement(_narrowings(env, holds), _narrowings(env, fails))
        return refinement if refinement.when_true or refinement.when_false else None

    def truth_value(self, node: ast.expr, env: Environment) -> Value:
        """Evaluate a condition as a value: its truth, if decided, and what it implies."""
        holds, fails = self.condition(node, env.copy())
        if holds is None and fails is None:
            return PRESENT
        joined = self.merge(holds, fails)
        if joined is not None:
            env.cells, env.mode_checked = joined.cells, env.mode_checked
        truth = None if holds is not None and fails is not None else holds is not None
        refinement = Refinement(_narrowings(env, holds), _narrowings(env, fails))
        return Value(SOME, truth=truth, refinement=refinement)


def _are_members(values: Sequence[Value]) -> bool:
    """Return whether each value is one member of an enum, all of the same enum."""
    members = [value.kind for value in values if value.kind is not None and value.kind.startswith(ENUM)]
    return len(members) == len(values) and len({member.rpartition(".")[0] for member in members}) == 1


def _narrowings(before: Environment, after: Environment | None) -> dict[int, int] | None:
    if after is None:
        return None
    narrowed: dict[int, int] = {}
    for cell, value in before.cells.items():
        now = after.cells.get(cell)
        if now is not None and now.identity == value.identity and now.nulls != value.nulls:
            narrowed[value.identity] = now.nulls
    return narrowed


def is_none(node: ast.expr) -> bool:
    """Return whether an expression is the constant None."""
    return isinstance(node, ast.Constant) and node.value is None
