"""Evaluate expressions abstractly and record each use of a value that can be None."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from patchkit.audit.buffers import KIND, is_buffer
from patchkit.audit.interpreter.calls import Calls
from patchkit.audit.interpreter.conditions import is_none
from patchkit.audit.interpreter.frame import local
from patchkit.audit.modes import mode_member
from patchkit.audit.rules import Use
from patchkit.audit.values import ABSENT, ANY, NONE, PRESENT, SOME, UNKNOWN, Environment, Value, fresh, join
from patchkit.tree import mirror
from patchkit.tree.index import is_runtime, last_name

if TYPE_CHECKING:
    from collections.abc import Callable


class Expressions(Calls):
    """The expressions of one run, including tests and calls."""

    def value(self, node: ast.expr, env: Environment) -> Value:
        """Evaluate an expression; its side effects are applied to ``env``."""
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            return handler(self, node, env)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child, env)
        return PRESENT

    def _value_constant(self, node: ast.Constant, _state: Environment) -> Value:
        if node.value is None:
            return fresh(ABSENT)
        return Value(SOME, truth=bool(node.value)) if isinstance(node.value, (bool, int)) else PRESENT

    def _value_name(self, node: ast.Name, env: Environment) -> Value:
        cell = local(node.id)
        value = env.cells.get(cell)
        if value is None:
            value = Value(ANY, cls=self.solver.class_of_name(node.id, None))
            if node.id == "TYPE_CHECKING":
                value = Value(SOME, truth=False)
            env.cells[cell] = value
        return value

    def _value_attribute(self, node: ast.Attribute, env: Environment) -> Value:
        member = mode_member(node)
        if member is not None:
            return Value(SOME, modes=frozenset({member}))
        constant = self.constant(node)
        if constant is not None:
            return Value(SOME, kind=constant)
        base = self.value(node.value, env)
        if is_buffer(node):
            return Value(SOME, kind=KIND)
        if base.kind == "backend slot" and node.attr == mirror.FLAG:
            self.use(Use.SLOT, node, base, env, node.value)
        elif base.kind != "backend slot":
            self.use(Use.ATTRIBUTE, node, base, env, node.value)
        return self.read_field(self.with_object(base, node.value, env), node.attr, env, node)

    def _value_subscript(self, node: ast.Subscript, env: Environment) -> Value:
        base = self.value(node.value, env)
        self.use(Use.SUBSCRIPT, node, base, env, node.value)
        if isinstance(node.slice, ast.Slice):
            for bound in (node.slice.lower, node.slice.upper, node.slice.step):
                if bound is not None:
                    self.use(Use.SLICE, bound, self.value(bound, env), env)
        else:
            self.value(node.slice, env)
            index = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if base.items is not None and isinstance(index, int) and index < len(base.items):
                return base.items[index]
        if base.kind == KIND:
            return Value(SOME, kind=KIND)
        return PRESENT if base.kind in ("list", "Tensor") else Value(ANY)

    def _value_binop(self, node: ast.BinOp, env: Environment) -> Value:
        left, right = self.value(node.left, env), self.value(node.right, env)
        self.use(Use.ARITHMETIC, node, left, env, node.left)
        self.use(Use.ARITHMETIC, node, right, env, node.right)
        return Value(SOME, kind=left.kind if left.kind in ("list", "Tensor") else right.kind)

    def _value_unaryop(self, node: ast.UnaryOp, env: Environment) -> Value:
        if isinstance(node.op, ast.Not):
            return self.truth_value(node, env)
        self.use(Use.ARITHMETIC, node, self.value(node.operand, env), env, node.operand)
        return PRESENT

    _value_compare = Calls.truth_value

    def _value_boolop(self, node: ast.BoolOp, env: Environment) -> Value:
        if all(_is_test(value) for value in node.values):
            return self.truth_value(node, env)
        wanted = isinstance(node.op, ast.Or)
        result: Value | None = None
        current: Environment | None = env.copy()
        left_off: Environment | None = None
        for index, operand in enumerate(node.values):
            if current is None:
                break
            value = self.value(operand, current)
            if index == len(node.values) - 1:
                result = value if result is None else join(result, value)
                left_off = self.merge(left_off, current)
                break
            holds, fails = self.condition(operand, current)
            stop, current = (holds, fails) if wanted else (fails, holds)
            if stop is not None:
                narrowed = (
                    replace(value, nulls=value.nulls & SOME or SOME, tainted=False) if wanted else value
                )
                narrowed = replace(narrowed, truth=wanted, refinement=None)
                result = narrowed if result is None else join(result, narrowed)
                left_off = self.merge(left_off, stop)
        if left_off is not None:
            env.cells = left_off.cells
        if result is None:
            return PRESENT
        refinement = self.implied(node, env)
        return result if refinement is None else replace(result, refinement=refinement)

    def _value_ifexp(self, node: ast.IfExp, env: Environment) -> Value:
        holds, fails = self.condition(node.test, env.copy())
        lacking = self._tested(node.test, env)
        results: list[tuple[Value, Environment]] = []
        for branch, expression in ((holds, node.body), (fails, node.orelse)):
            if branch is not None:
                value = self.value(expression, branch)
                if is_none(expression) and (lacking is not None or self._on_device(node.test)):
                    step = self.step(expression, "None is passed on instead")
                    trail = lacking.trail if lacking is not None else ()
                    value = replace(value, tainted=True, trail=trail).via(step)
                results.append((value, branch))
        joined = self.merge(holds, fails)
        if joined is not None:
            env.cells = joined.cells
        if not results:
            return PRESENT
        if len(results) == 1:
            return results[0][0]
        return self.either(results[0], results[1], f"{node.lineno}:{node.col_offset}", env)

    def _tested(self, test: ast.expr, env: Environment) -> Value | None:
        """Return the value that a test compares with None, if it can be None for lack of the mirror."""
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and is_none(test.comparators[0]):
            value = self.value(test.left, env.copy())
            return value if value.missing else None
        return None

    def _on_device(self, test: ast.expr) -> bool:
        """Return whether the runtime tests for a device tensor, in place of which the host receives None."""
        return (
            is_runtime(self.context.function.module.file)
            and isinstance(test, ast.Call)
            and last_name(test.func) == "isinstance"
            and last_name(test.args[1]) == "Tensor"
        )

    def _value_namedexpr(self, node: ast.NamedExpr, env: Environment) -> Value:
        value = self.value(node.value, env)
        self.assign(node.target, value, env)
        return value

    def _value_starred(self, node: ast.Starred, env: Environment) -> Value:
        value = self.value(node.value, env)
        self.use(Use.ITERATION, node, value, env)
        return Value(SOME)

    def _value_await(self, node: ast.Await, env: Environment) -> Value:
        return self.value(node.value, env)

    def _sequence(self, node: ast.List | ast.Tuple | ast.Set, env: Environment) -> Value:
        items = tuple(self.value(element, env) for element in node.elts)
        plain = not any(isinstance(element, ast.Starred) for element in node.elts)
        return Value(
            SOME, kind="list" if isinstance(node, ast.List) else None, items=items if plain else None
        )

    _value_list = _value_tuple = _value_set = _sequence

    def _value_lambda(self, node: ast.Lambda, env: Environment) -> Value:
        inner = env.copy()
        for parameter in (*node.args.args, *node.args.kwonlyargs):
            inner.cells[local(parameter.arg)] = UNKNOWN
        self.value(node.body, inner)
        return PRESENT

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, env: Environment
    ) -> Value:
        inner: Environment | None = env.copy()
        for generator in node.generators:
            if inner is None:
                break
            iterable = self.value(generator.iter, inner)
            self.use(Use.ITERATION, generator.iter, iterable, inner)
            self.assign(generator.target, self.element(iterable), inner)
            for test in generator.ifs:
                if inner is not None:
                    inner, _ = self.condition(test, inner)
        if inner is not None:
            parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
            for part in parts:
                self.value(part, inner)
        return Value(SOME, kind="list" if isinstance(node, ast.ListComp) else None)

    _value_listcomp = _value_setcomp = _value_generatorexp = _value_dictcomp = _comprehension

    def element(self, iterable: Value) -> Value:
        """Return the value of one element of an iterable."""
        if iterable.kind == "backend slots":
            step = self.step(
                self.context.function.node, "the slot is None if the configuration leaves it unset"
            )
            return Value(ANY, tainted=True, kind="backend slot", trail=(step,))
        if iterable.items:
            result = iterable.items[0]
            for item in iterable.items[1:]:
                result = join(result, item)
            return fresh(result)
        return Value(ANY)

    def assign(self, target: ast.expr, value: Value, env: Environment) -> None:
        """Bind a value to a target."""
        if isinstance(target, ast.Name):
            self.forget(target.id, env)
            step = self.step(target, f"{target.id} is assigned that value")
            env.cells[local(target.id)] = value.via(step) if value.missing and value.trail else value
        elif isinstance(target, ast.Attribute):
            base = self.with_object(self.value(target.value, env), target.value, env)
            self.use(Use.ATTRIBUTE, target, base, env, target.value)
            self._assign_field(base, target, value, env)
        elif isinstance(target, ast.Subscript):
            self.use(Use.SUBSCRIPT, target, self.value(target.value, env), env)
            if isinstance(target.slice, ast.Slice):
                self.use(Use.COPY, target, value, env)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.use(Use.ITERATION, target, value, env)
            for index, element in enumerate(target.elts):
                item = value.items[index] if value.items and len(value.items) == len(target.elts) else UNKNOWN
                self.assign(element, fresh(item) if item is UNKNOWN else item, env)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, PRESENT, env)

    def _assign_field(self, base: Value, target: ast.Attribute, value: Value, env: Environment) -> None:
        name = target.attr
        if name in mirror.MIRROR and self.solver.is_record(base.cls):
            self.use_stale(target, value, env)
        if base.obj is None:
            return
        if name in mirror.TRACKED and value.nulls == NONE and self.solver.is_record(base.cls):
            step = self.step(target, f"{ast.unparse(target)} is set to None")
            value = replace(value, tainted=True, trail=(*value.trail, step))
        elif value.missing:
            value = value.via(self.step(target, f"{ast.unparse(target)} is assigned that value"))
        if value.modes is not None:
            env.mode_checked = True
            if not value.modes.intersection(self.solver.modes.mirrorless):
                self._assume_mirror(base, target, env)
        cell = ("field", base.obj, name)
        env.cells[cell] = value
        self.written.add(cell)
        if base.cls is not None and base.cls not in mirror.BATCH_CLASSES:
            self.solver.store_field(base.cls, name, value)

    def _assume_mirror(self, batch: Value, target: ast.Attribute, env: Environment) -> None:
        """Assume that a batch whose mode is changed to another step may have its mirror."""
        for name in mirror.MIRROR:
            value = self.read_field(batch, name, env, target)
            if value.missing and batch.obj is not None:
                env.cells[("field", batch.obj, name)] = replace(fresh(value), nulls=ANY)


_HANDLERS: dict[type[ast.expr], Callable[[Expressions, Any, Environment], Value]] = {
    kind: getattr(Expressions, name)
    for kind in ast.expr.__subclasses__()
    if hasattr(Expressions, name := f"_value_{kind.__name__.lower()}")
}


def _is_test(node: ast.expr) -> bool:
    if isinstance(node, ast.BoolOp):
        return all(map(_is_test, node.values))
    if isinstance(node, ast.Call):
        return last_name(node.func).startswith(("is_", "has_")) or last_name(node.func) in (
            "isinstance",
            "hasattr",
        )
    return isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
