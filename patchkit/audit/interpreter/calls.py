"""Calls: pass values to the callee, return its result and writes, and evaluate built-ins on None."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.audit import facts
from patchkit.audit.context import Call
from patchkit.audit.interpreter.conditions import Conditions
from patchkit.audit.interpreter.frame import dotted, local
from patchkit.audit.rules import Use
from patchkit.audit.values import ABSENT, ANY, NONE, PRESENT, SOME, Environment, Value, fresh, join
from patchkit.tree import mirror
from patchkit.tree.index import Class, Function, last_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.audit.context import Summary

    Arguments = Sequence[tuple[str | None, ast.expr, Value]]
    """Each argument of a call: its keyword, its expression and its value."""

_CONSUMERS = frozenset(
    {"abs", "all", "any", "enumerate", "float", "frozenset", "int", "iter", "len", "list", "map"}
)
_CONSUMERS |= {"max", "min", "next", "range", "reversed", "round", "set", "sorted", "sum", "tuple", "zip"}
_ARRAY_MODULES = frozenset({"F", "np", "numpy", "torch"})
_ARRAY_METHODS = frozenset({"allclose", "equal", "extend", "gather", "index_select", "new_tensor", "scatter"})
_COPIERS = frozenset({"copy", "deepcopy", "replace"})


class Calls(Conditions):
    """The calls of one run."""

    def _value_call(self, node: ast.Call, env: Environment) -> Value:
        """Evaluate a call; record what raises, what is passed and what is written."""
        function = node.func
        if isinstance(function, ast.Name):
            special = self._builtin(function.id, node, env)
            if special is not None:
                return special
            arguments = self._arguments(node, env)
            wanted = any(value.missing for _, _, value in arguments)
            target = self.solver.program.resolve(self.module, function.id, parse=wanted)
            if isinstance(target, Class):
                return self._construct(target.name, target, node, arguments, env)
            if isinstance(target, Function):
                return self._call([(target, None, None)], node, arguments, env)
            if function.id == "cls" and self.context.function.owner is not None:
                name = self.context.self_class or self.context.function.owner.name
                return self._construct(name, self.solver.class_named(name), node, arguments, env)
            if function.id[:1].isupper():
                return self._construct(function.id, None, node, arguments, env)
            return Value(ANY)
        if isinstance(function, ast.Attribute):
            return self._method_call(function, node, env)
        self.value(function, env)
        self._arguments(node, env)
        return Value(ANY)

    def _arguments(self, node: ast.Call, env: Environment) -> list[tuple[str | None, ast.expr, Value]]:
        given: list[tuple[str | None, ast.expr, Value]] = []
        for argument in node.args:
            value = self.value(argument, env)
            given.append((None, argument, self.with_object(value, argument, env)))
        for keyword in node.keywords:
            value = self.value(keyword.value, env)
            if keyword.arg is None:
                self.use(Use.ITERATION, keyword.value, value, env)
                continue
            if keyword.arg in mirror.MIRROR:
                self.use_stale(keyword.value, value, env)
            given.append((keyword.arg, keyword.value, self.with_object(value, keyword.value, env)))
        return given

    def _builtin(self, name: str, node: ast.Call, env: Environment) -> Value | None:
        if name == "getattr" and len(node.args) >= 2 and isinstance(node.args[1], ast.Constant):
            base = self.value(node.args[0], env)
            attribute = str(node.args[1].value)
            if len(node.args) == 2:
                slot = base.kind == "backend slot"
                self.use(Use.SLOT if slot else Use.ATTRIBUTE, node, base, env, node.args[0])
            return self.read_field(self.with_object(base, node.args[0], env), attribute, env, node)
        if name == "setattr" and len(node.args) == 3 and isinstance(node.args[1], ast.Constant):
            target = ast.copy_location(
                ast.Attribute(node.args[0], str(node.args[1].value), ast.Store()), node
            )
            self.assign(target, self.value(node.args[2], env), env)
            return PRESENT
        if name in _CONSUMERS:
            values = [self.value(argument, env) for argument in node.args]
            skip = 1 if name == "map" else 0
            for argument, value in zip(node.args[skip:], values[skip:], strict=True):
                self.use(Use.BUILTIN, node, value, env, argument)
            for keyword in node.keywords:
                self.value(keyword.value, env)
            return Value(SOME, kind="list" if name in ("list", "sorted") else None)
        if name == "isinstance" and len(node.args) == 2:
            return self.truth_value(node, env)
        if name in _COPIERS and node.args:
            return self._copy(node, env)
        return None

    def _copy(self, node: ast.Call, env: Environment) -> Value:
        (_, _, source), *changes = self._arguments(node, env)
        obj = self.new_object(node, source.cls, env)
        for cell, held in list(env.cells.items()):
            if cell[0] == "field" and cell[1] == source.obj:
                env.cells[("field", obj, cell[2])] = held
        if self.solver.is_record(source.cls):
            for name in (*mirror.TRACKED, "forward_mode"):
                env.cells[("field", obj, name)] = self.read_field(source, name, env, node)
        for keyword, _, value in changes:
            if keyword is not None:
                env.cells[("field", obj, keyword)] = value
        return replace(source, obj=obj, identity=fresh(source).identity)

    def _construct(
        self, name: str, cls: Class | None, node: ast.Call, arguments: Arguments, env: Environment
    ) -> Value:
        obj = self.new_object(node, name, env)
        names = self.solver.constructor_fields(cls) if cls is not None else []
        given: dict[str, Value] = {}
        for index, (keyword, argument, value) in enumerate(arguments):
            attribute = keyword or (names[index] if index < len(names) else None)
            if attribute is None:
                continue
            stored = value.via(self.step(argument, f"{name}({attribute}=...) stores it"))
            given[attribute] = stored
            env.cells[("field", obj, attribute)] = stored
            if name not in mirror.BATCH_CLASSES:
                self.solver.store_field(name, attribute, stored)
        if self.solver.is_record(name):
            for attribute in mirror.TRACKED:
                if given.get(attribute, ABSENT).nulls == NONE:
                    step = self.step(node, f"{name}(...) leaves {attribute} unset")
                    silent = attribute in mirror.EXTEND_MIRROR and not self._drafts(given)
                    value = given.get(attribute, ABSENT)
                    env.cells[("field", obj, attribute)] = replace(
                        fresh(value),
                        nulls=ANY if silent else NONE,
                        tainted=not silent,
                        trail=(*value.trail, step),
                    )
        init = self.solver.program.method(cls, "__init__")
        result = Value(SOME, cls=name, obj=obj)
        if init is not None:
            self._call([(init, name, result)], node, arguments, env)
        return result

    def _drafts(self, given: dict[str, Value]) -> bool:
        modes = given["forward_mode"].modes if "forward_mode" in given else None
        return any("DRAFT" in mode for mode in (modes or {self.context.step}))

    def _method_call(self, function: ast.Attribute, node: ast.Call, env: Environment) -> Value:
        name = function.attr
        if isinstance(function.value, ast.Call) and last_name(function.value.func) == "super":
            return self._super_call(name, node, env)
        root = (dotted(function.value) or "").split(".")[0]
        if root in _ARRAY_MODULES and not self.is_local(root):
            for _, argument, value in self._arguments(node, env):
                self.use(Use.ARRAY, node, value, env, argument)
            return Value(SOME, kind="Tensor")
        if (root in _COPIERS and name in _COPIERS) or (root == "dataclasses" and name == "replace"):
            return self._copy(node, env) if node.args else PRESENT
        base = self.value(function.value, env)
        if base.kind != "backend slot":
            self.use(Use.ATTRIBUTE, function, base, env, function.value)
        base = self.with_object(base, function.value, env)
        arguments = self._arguments(node, env)
        if base.modes is not None and self.solver.modes.is_predicate(name):
            return self.truth_value(node, env)
        if (name.endswith("_") and not name.startswith("_")) or name in _ARRAY_METHODS:
            for _, argument, value in arguments:
                self.use(Use.COPY, node, value, env, argument)
        if isinstance(function.value, ast.Name) and not self.is_local(function.value.id):
            wanted = any(value.missing for _, _, value in arguments)
            target = self.solver.program.resolve(self.module, function.value.id, parse=wanted)
            if isinstance(target, Class):
                method = self.solver.program.method(target, name)
                if method is None:
                    return Value(ANY)
                bound = Value(SOME, cls=target.name) if "classmethod" in method.decorators else None
                return self._call([(method, target.name, bound)], node, arguments, env)
            if target is not None and not isinstance(target, Function):
                member = self.solver.program.resolve(target, name, parse=wanted)
                if isinstance(member, Function):
                    return self._call([(member, None, None)], node, arguments, env)
                if isinstance(member, Class):
                    return self._construct(member.name, member, node, arguments, env)
                return Value(ANY)
        targets = self.solver.method_targets(self.context, base, function, arguments)
        if not targets:
            is_tensor = base.kind == "Tensor" or name in ("to", "cpu", "clone", "int", "long")
            kind = "list" if name == "tolist" else "Tensor" if is_tensor else None
            return Value(ANY, kind=kind)
        return self._call([(method, cls, base) for method, cls in targets], node, arguments, env)

    def _super_call(self, name: str, node: ast.Call, env: Environment) -> Value:
        arguments = self._arguments(node, env)
        owner, own = (self.context.function.owner, self.solver.class_named(self.context.self_class))
        if owner is None:
            return Value(ANY)
        method = self.solver.program.method(own or owner, name, after=owner)
        if method is None:
            return Value(ANY)
        receiver = env.cells.get(local(self.context.function.parameters[0].arg)) if self.parameters else None
        class_name = self.context.self_class or owner.name
        return self._call([(method, class_name, receiver)], node, arguments, env)

    def _call(
        self,
        targets: Sequence[tuple[Function, str | None, Value | None]],
        node: ast.Call,
        arguments: Arguments,
        env: Environment,
    ) -> Value:
        results: list[Value] = []
        is_known = not any(value.missing for _, _, value in arguments)
        for method, cls, base in targets:
            bound, places = bind(method, base, arguments)
            flags = (name for name, value in bound.items() if value.truth)
            if any(map(facts.CAPTURE.search, (method.name, *flags))):
                continue  # A batch made for a capture has its mirror.
            for name in places.keys() & set(mirror.MIRROR):
                self.use_stale(places[name], bound[name], env)
            made = Call(self.context, method, cls, self._steps(bound, env))
            summaries = (
                self.solver.known_outcomes(made) if is_known and not self._filled(bound, env) else None
            )
            if summaries is None:
                entry, fields = self._entry_of(method, bound, places, node, env)
                summaries = self.solver.call(made, entry, fields)
            for summary in summaries:
                self._return(summary, method, bound, node, env)
                results.append(self._result(summary, method, node, env))
        if not results:
            return Value(ANY, cls=self.solver.annotated_result(targets[0][0]))
        merged = results[0]
        for result in results[1:]:
            merged = join(merged, result)
        return merged

    @staticmethod
    def _filled(bound: dict[str, Value], env: Environment) -> bool:
        """Return whether this function filled a mirror that it passes on and that batches of the step lack."""
        held = (
            env.cells.get(("field", value.obj, name))
            for value in bound.values()
            if value.obj is not None
            for name in mirror.TRACKED
        )
        return any(value is not None and value.nulls == SOME for value in held)

    def _steps(self, bound: dict[str, Value], env: Environment) -> Sequence[str]:
        """Return the steps in which a callee runs: those of the mode or the batch passed to it."""
        for value in bound.values():
            modes = value.modes
            if modes is None and value.cls in mirror.BATCH_CLASSES and value.obj is not None:
                modes = self.read_field(value, "forward_mode", env).modes
            if modes is not None:
                return [step for step in self.solver.modes.mirrorless if step in modes]
        return [self.context.step]

    def _entry_of(
        self,
        method: Function,
        bound: dict[str, Value],
        places: dict[str, ast.expr],
        node: ast.Call,
        env: Environment,
    ) -> tuple[dict[str, Value], dict[tuple[str, str], Value]]:
        entry: dict[str, Value] = {}
        entry_fields: dict[tuple[str, str], Value] = {}
        for name, value in bound.items():
            step = self.step(places.get(name, node), f"passed to {method.qualname}() as {name}")
            entry[name] = value.via(step)
            for attribute, held in self.handed_over(value, env).items():
                entry_fields[(name, attribute)] = held.via(step)
        return entry, entry_fields

    def _return(
        self, summary: Summary, method: Function, bound: dict[str, Value], node: ast.Call, env: Environment
    ) -> None:
        for (name, attribute), value in summary.writes.items():
            target = bound.get(name)
            if target is None or target.obj is None:
                continue
            cell = ("field", target.obj, attribute)
            stored = fresh(value).via(self.step(node, f"{method.qualname}() sets {attribute}"))
            env.cells[cell] = stored
            self.written.add(cell)

    def _result(self, summary: Summary, method: Function, node: ast.Call, env: Environment) -> Value:
        if not summary.returns:
            return Value(ANY, cls=self.solver.annotated_result(method))
        result = fresh(summary.result)
        if result.obj is None:
            return result.via(self.step(node, f"{method.qualname}() returns it"))
        obj = self.new_object(node, result.cls, env)
        for attribute, value in summary.result_fields.items():
            env.cells[("field", obj, attribute)] = fresh(value).via(
                self.step(node, f"{method.qualname}() returns it in {attribute}")
            )
        return replace(result, obj=obj)


def bind(
    method: Function, base: Value | None, arguments: Arguments
) -> tuple[dict[str, Value], dict[str, ast.expr]]:
    """Return the value of each of the callee's parameters, and the expression it comes from.

    Arguments without a parameter of their own are omitted.
    """
    names = [parameter.arg for parameter in method.parameters]
    bound: dict[str, Value] = {}
    places: dict[str, ast.expr] = {}
    positional = iter(names[: len(names) - len(method.node.args.kwonlyargs)])
    if base is not None and method.owner is not None and "staticmethod" not in method.decorators:
        first = next(positional, None)
        if first is not None:
            bound[first] = base
    for keyword, argument, value in arguments:
        if isinstance(argument, ast.Starred):
            break
        name = keyword if keyword is not None else next(positional, None)
        if name is not None and name in names:
            bound[name] = value
            places[name] = argument
    return bound, places
