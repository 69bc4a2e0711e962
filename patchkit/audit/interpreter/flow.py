"""Follow None through one function for one step: assignments, checks, branches and loops."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from patchkit.audit import facts
from patchkit.audit.context import Summary
from patchkit.audit.interpreter.conditions import is_none
from patchkit.audit.interpreter.expressions import Expressions
from patchkit.audit.interpreter.frame import local
from patchkit.audit.rules import Use
from patchkit.audit.values import ABSENT, ANY, NONE, PRESENT, SOME, Environment, Value, fresh, join, widen
from patchkit.tree import mirror
from patchkit.tree.index import class_of_annotation, last_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patchkit.audit.context import Context
    from patchkit.audit.solver import Solver

_LOOP_ROUNDS = 3


def interpret(solver: Solver, context: Context) -> Summary:
    """Run the function of a context; return its effects, and set its hits in the order in which they were found."""
    interpreter = Interpreter(solver, context)
    summary = interpreter.run()
    context.hits = list(interpreter.hits.values())
    return summary


class Interpreter(Expressions):
    """Runs one function abstractly in one context, from its entry state to its summary and hits."""

    def __init__(self, solver: Solver, context: Context) -> None:
        super().__init__(solver, context)
        self._summary = Summary()
        self._loops: list[tuple[list[Environment], list[Environment]]] = []

    def run(self) -> Summary:
        """Interpret the body, loops until nothing changes, and return the summary."""
        env = self.block(self.context.function.node.body, self._entry())
        if env is not None:
            self._leave(ABSENT, env)
        return self._summary

    def _entry(self) -> Environment:
        env = Environment()
        context = self.context
        for index, parameter in enumerate(context.function.parameters):
            name = parameter.arg
            self.parameters[name] = f"param:{name}"
            value = context.entry.get(name)
            if value is None or (value.modes is None and _is_mode(parameter)):
                value = self._default_parameter(index, parameter)
            if facts.CAPTURE.search(name):
                value = Value(SOME, truth=False)
            if name == facts.SPEC_INPUT:
                value = replace(value, nulls=SOME)
            if value.cls is None and self._is_self(index):
                value = replace(value, cls=self.solver.class_of_self(context))
            if value.cls is None:
                hint = class_of_annotation(parameter.annotation)
                value = replace(value, cls=self.solver.class_of_name(name, hint))
            if self.solver.is_decision(context.function) and facts.BACKEND_NAME.search(name):
                value = Value(SOME, kind="backend slots")
            plain = value.modes is not None or value.nulls == NONE or value.kind is not None
            obj = None if plain else self.parameters[name]
            value = fresh(value)
            value.obj = obj
            env.cells[local(name)] = value
            if obj is not None:
                self.classes[obj] = value.cls
        for (name, attribute), value in context.entry_fields.items():
            if name not in self.parameters:
                continue
            owner = self.parameters[name]
            path, _, last = attribute.rpartition(".")
            if path:
                nested = Value(SOME, cls=facts.SPEC_INPUT_ROOT, obj=f"{owner}.{path}")
                env.cells.setdefault(("field", owner, path), nested)
                owner = f"{owner}.{path}"
                self.classes.setdefault(owner, facts.SPEC_INPUT_ROOT)
            # Calls in other steps have their own contexts.
            if facts.MODE_NAME.match(last) and (value.modes is None or context.step in value.modes):
                env.cells[("field", owner, last)] = fresh(replace(value, modes=frozenset({context.step})))
            else:
                env.cells[("field", owner, last)] = fresh(value)
        return env

    def _is_self(self, index: int) -> bool:
        function = self.context.function
        return function.owner is not None and index == 0 and "staticmethod" not in function.decorators

    def _default_parameter(self, index: int, parameter: ast.arg) -> Value:
        context = self.context
        name = parameter.arg
        if self._is_self(index):
            return Value(SOME, cls=self.solver.class_of_self(context))
        if name in mirror.TRACKED:
            return self.solver.default_argument(context, name, self.step(parameter, ""))
        if _is_mode(parameter):
            return Value(SOME, modes=frozenset({context.step}))
        hint = class_of_annotation(parameter.annotation)
        # A step without the mirror is speculative, so its callers pass the speculative input.
        nulls = SOME if name == "spec_info" else ANY
        return Value(nulls, cls=self.solver.class_of_name(name, hint))

    def _leave(self, value: Value, env: Environment) -> None:
        summary = self._summary
        result_fields = self._fields_of(value, env)
        writes = {}
        for name, obj in self.parameters.items():
            for cell in self.written:
                if cell[0] == "field" and cell[1] == obj and cell in env.cells:
                    writes[(name, cell[2])] = env.cells[cell]
        if not summary.returns:
            summary.result, summary.result_fields, summary.writes = value, result_fields, writes
        else:
            summary.result = join(summary.result, value)
            widen(summary.result_fields, result_fields)
            for written in summary.writes.keys() | writes.keys():
                before, after = summary.writes.get(written), writes.get(written)
                default = self._at_entry(*written)
                summary.writes[written] = join(before or default, after or default)
        summary.returns = True
        for obj in self.created:
            self.solver.publish(self.context, self.classes.get(obj), obj, env)

    def _at_entry(self, name: str, attribute: str) -> Value:
        value = self.context.entry_fields.get((name, attribute))
        if value is not None:
            return value
        obj = self.parameters[name]
        return self.default_field(Value(SOME, obj=obj, cls=self.classes.get(obj)), attribute)

    def _fields_of(self, value: Value, env: Environment) -> dict[str, Value]:
        if value.obj is None:
            return {}
        if self.solver.is_record(value.cls):
            for name in (*mirror.TRACKED, "forward_mode"):
                self.read_field(value, name, env)
        return {
            cell[2]: held for cell, held in env.cells.items() if cell[0] == "field" and cell[1] == value.obj
        }

    def block(self, body: Sequence[ast.stmt], env: Environment | None) -> Environment | None:
        """Run statements in order and return the state after them; None if their end is unreachable."""
        for statement in body:
            if env is None:
                return None
            env = self.statement(statement, env)
        return env

    def statement(self, node: ast.stmt, env: Environment) -> Environment | None:
        """Run one statement and return the state after it; None if that is unreachable."""
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            return handler(self, node, env)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child, env)
        return env

    def _do_return(self, node: ast.Return, env: Environment) -> None:
        value = self.value(node.value, env) if node.value is not None else ABSENT
        self._leave(value, env)

    def _do_raise(self, node: ast.Raise, env: Environment) -> None:
        if node.exc is not None:
            self.value(node.exc, env)

    def _do_break(self, _node: ast.Break, env: Environment) -> None:
        if self._loops:
            self._loops[-1][0].append(env)

    def _do_continue(self, _node: ast.Continue, env: Environment) -> None:
        if self._loops:
            self._loops[-1][1].append(env)

    def _do_assign(self, node: ast.Assign, env: Environment) -> Environment:
        value = self.value(node.value, env)
        for target in node.targets:
            self.assign(target, value, env)
        return env

    def _do_annassign(self, node: ast.AnnAssign, env: Environment) -> Environment:
        if node.value is not None:
            value = self.value(node.value, env)
            hint = class_of_annotation(node.annotation)
            if value.cls is None and hint is not None and self.solver.class_named(hint) is not None:
                value = replace(value, cls=hint)
            self.assign(node.target, value, env)
        return env

    def _do_augassign(self, node: ast.AugAssign, env: Environment) -> Environment:
        before = self.value(node.target, env)
        self.use(Use.ARITHMETIC, node.target, before, env)
        self.use(Use.ARITHMETIC, node.value, self.value(node.value, env), env)
        self.assign(node.target, Value(SOME, kind=before.kind), env)
        return env

    def _do_if(self, node: ast.If, env: Environment) -> Environment | None:
        holds, fails = self.condition(node.test, env)
        return self.merge(self.block(node.body, holds), self.block(node.orelse, fails))

    def _do_while(self, node: ast.While, env: Environment) -> Environment | None:
        return self._loop(env, node.body, node.orelse, lambda entry: self.condition(node.test, entry))

    def _do_for(self, node: ast.For | ast.AsyncFor, env: Environment) -> Environment | None:
        iterable = self.value(node.iter, env)
        self.use(Use.ITERATION, node.iter, iterable, env)

        def enter(entry: Environment) -> tuple[Environment | None, Environment | None]:
            inside = entry.copy()
            self.assign(node.target, self.element(iterable), inside)
            return inside, entry

        return self._loop(env, node.body, node.orelse, enter)

    _do_asyncfor = _do_for

    def _loop(
        self,
        env: Environment,
        body: Sequence[ast.stmt],
        orelse: Sequence[ast.stmt],
        enter: Callable[[Environment], tuple[Environment | None, Environment | None]],
    ) -> Environment | None:
        entry: Environment | None = env
        done: Environment | None = None
        broken: list[Environment] = []
        for _ in range(_LOOP_ROUNDS):
            if entry is None:
                break
            before = dict(entry.cells)
            inside, done = enter(entry.copy())
            broken = []
            continued: list[Environment] = []
            self._loops.append((broken, continued))
            end = self.block(body, inside)
            self._loops.pop()
            for extra in (end, *continued):
                entry = self.merge(entry, extra)
            if entry is None or entry.cells == before:
                break
        result = self.block(orelse, done)
        for extra in broken:
            result = self.merge(result, extra)
        return result

    def _do_with(self, node: ast.With | ast.AsyncWith, env: Environment) -> Environment | None:
        for item in node.items:
            value = self.value(item.context_expr, env)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, fresh(value), env)
        return self.block(node.body, env)

    _do_asyncwith = _do_with

    def _do_try(self, node: ast.Try, env: Environment) -> Environment | None:
        started = env.copy()
        end = self.block(node.body, env)
        handled: Environment | None = None
        for handler in node.handlers:
            entry = self.merge(started.copy(), end.copy() if end is not None else None)
            handled = self.merge(handled, self.block(handler.body, entry))
        end = self.merge(self.block(node.orelse, end), handled)
        if end is None:
            self.block(node.finalbody, started)
            return None
        return self.block(node.finalbody, end)

    _do_trystar = _do_try

    def _do_match(self, node: ast.Match, env: Environment) -> Environment | None:
        self.value(node.subject, env)
        result: Environment | None = env.copy()
        for case in node.cases:
            result = self.merge(result, self.block(case.body, env.copy()))
        return result

    def _do_assert(self, node: ast.Assert, env: Environment) -> Environment | None:
        tested = env.copy()
        holds, _ = self.condition(node.test, tested)
        for value, expression, subject in self._demanded(node.test, env):
            self.use(Use.ASSERT, expression, value, env, subject)
        if holds is None:
            holds, _ = self.condition(node.test, env)
        return holds

    def _demanded(self, test: ast.expr, env: Environment) -> list[tuple[Value, ast.expr, ast.expr]]:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return [demanded for part in test.values for demanded in self._demanded(part, env)]
        wanted: ast.expr | None = None
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.IsNot):
            wanted = test.left if is_none(test.comparators[0]) else None
        elif isinstance(test, ast.Call) and last_name(test.func) == "isinstance" and test.args:
            wanted = test.args[0]
        elif isinstance(test, (ast.Name, ast.Attribute)):
            wanted = test
        if wanted is None:
            return []
        value = self.value(wanted, env)
        return [(value, test, wanted)] if value.missing else []

    def _do_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, env: Environment) -> Environment:
        inner = env.copy()
        for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            hint = class_of_annotation(parameter.annotation)
            inner.cells[local(parameter.arg)] = Value(ANY, cls=self.solver.class_of_name(parameter.arg, hint))
        outer, self._summary = self._summary, Summary()
        loops, self._loops = self._loops, []
        self.block(node.body, inner)
        self._summary, self._loops = outer, loops
        env.cells[local(node.name)] = PRESENT
        return env

    _do_asyncfunctiondef = _do_functiondef

    def _do_nothing(self, _node: ast.ClassDef | ast.Delete, env: Environment) -> Environment:
        return env

    _do_classdef = _do_delete = _do_nothing


_HANDLERS: dict[type[ast.stmt], Callable[[Interpreter, Any, Environment], Environment | None]] = {
    kind: getattr(Interpreter, name)
    for kind in ast.stmt.__subclasses__()
    if hasattr(Interpreter, name := f"_do_{kind.__name__.lower()}")
}


def _is_mode(parameter: ast.arg) -> bool:
    return parameter.arg == "forward_mode" or class_of_annotation(parameter.annotation) == facts.MODE_CLASS
