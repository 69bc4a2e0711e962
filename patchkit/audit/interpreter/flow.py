"""Follow None through one function for one kind of step: assignments, checks, branches and loops."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.audit import facts
from patchkit.audit.interpreter.expressions import Expressions, Summary, local, merge
from patchkit.audit.interpreter.values import ABSENT, ANY, NONE, PRESENT, SOME, State, Value, fresh, join
from patchkit.audit.modes import compare_mode
from patchkit.audit.rules import Use
from patchkit.tree.index import class_of_annotation, last_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patchkit.audit.solver import Context, Solver

_LOOP_ROUNDS = 3


class Interpreter(Expressions):
    """Run one function abstractly, in one context, from its entry state to its summary and its hits."""

    def __init__(self, solver: Solver, context: Context) -> None:
        super().__init__(solver, context)
        self.summary = Summary()
        self._loops: list[tuple[list[State], list[State]]] = []

    def run(self) -> Summary:
        """Interpret the body; loops go round until nothing changes."""
        state = self.block(self.context.function.node.body, self._entry())
        if state is not None:
            self._leave(ABSENT, state)
        return self.summary

    # Entry and exit

    def _entry(self) -> State:
        state = State()
        context = self.context
        for index, parameter in enumerate(context.function.parameters):
            name = parameter.arg
            self.parameters[name] = f"param:{name}"
            value = context.entry.get(name)
            if value is None or (value.modes is None and _is_mode(parameter)):
                value = self._default_parameter(index, parameter)
            if value.cls is None:
                hint = class_of_annotation(parameter.annotation)
                value = replace(value, cls=self.solver.class_of_name(name, hint))
            if self.solver.is_decision(context.function) and facts.BACKEND_NAME.search(name):
                value = Value(SOME, kind="backend slots")
            plain = value.modes is not None or value.nulls == NONE or value.kind is not None
            obj = None if plain else self.parameters[name]
            value = replace(fresh(value), obj=obj)
            state.cells[local(name)] = value
            if obj is not None:
                self.classes[obj] = value.cls
        for (name, attribute), value in context.entry_fields.items():
            if name not in self.parameters:
                continue
            owner = self.parameters[name]
            path, _, last = attribute.rpartition(".")
            if path:
                nested = Value(SOME, cls=facts.SPEC_INPUT_ROOT, obj=f"{owner}.{path}")
                state.cells.setdefault(("field", owner, path), nested)
                owner = f"{owner}.{path}"
                self.classes.setdefault(owner, facts.SPEC_INPUT_ROOT)
            state.cells[("field", owner, last)] = fresh(value)
        return state

    def _default_parameter(self, index: int, parameter: ast.arg) -> Value:
        function, context = self.context.function, self.context
        name = parameter.arg
        if function.owner is not None and index == 0 and "staticmethod" not in function.decorators:
            return Value(SOME, cls=self.solver.class_of_self(context))
        if name in facts.TRACKED:
            return self.solver.default_argument(context, name, self.step(parameter, ""))
        if _is_mode(parameter):
            return Value(SOME, modes=frozenset({context.step}))
        hint = class_of_annotation(parameter.annotation)
        return Value(ANY, cls=self.solver.class_of_name(name, hint))

    def _leave(self, value: Value, state: State) -> None:
        summary = self.summary
        result_fields = self._fields_of(value, state)
        writes = {}
        for name, obj in self.parameters.items():
            for cell in self.written:
                if cell[0] == "field" and cell[1] == obj and cell in state.cells:
                    writes[(name, cell[2])] = state.cells[cell]
        if not summary.returns:
            summary.result, summary.result_fields, summary.writes = value, result_fields, writes
        else:
            summary.result = join(summary.result, value)
            for key in summary.result_fields.keys() | result_fields.keys():
                mine, theirs = summary.result_fields.get(key), result_fields.get(key)
                known = mine if mine is not None else theirs
                assert known is not None
                summary.result_fields[key] = join(mine, theirs) if mine and theirs else known
            for written in summary.writes.keys() | writes.keys():
                before, after = summary.writes.get(written), writes.get(written)
                default = self._at_entry(*written)
                summary.writes[written] = join(before or default, after or default)
        summary.returns = True
        for obj in self.created:
            self.solver.publish(self.context, self.classes.get(obj), obj, state)

    def _at_entry(self, name: str, attribute: str) -> Value:
        known = self.context.entry_fields.get((name, attribute))
        if known is not None:
            return known
        obj = self.parameters[name]
        return self.default_field(Value(SOME, obj=obj, cls=self.classes.get(obj)), attribute)

    def _fields_of(self, value: Value, state: State) -> dict[str, Value]:
        if value.obj is None:
            return {}
        if self.solver.is_record(value.cls):
            for name in (*facts.TRACKED, "forward_mode"):
                self.read_field(value, name, state)
        return {
            cell[2]: held for cell, held in state.cells.items() if cell[0] == "field" and cell[1] == value.obj
        }

    # Statements

    def block(self, body: Sequence[ast.stmt], state: State | None) -> State | None:
        """Run statements in order; None when their end cannot be reached."""
        for statement in body:
            if state is None:
                return None
            state = self.statement(statement, state)
        return state

    def statement(self, node: ast.stmt, state: State) -> State | None:
        """Run one statement and return the state after it, or None when control does not get there."""
        handler: Callable[[ast.stmt, State], State | None] | None = getattr(
            self, f"_do_{type(node).__name__.lower()}", None
        )
        if handler is not None:
            return handler(node, state)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child, state)
        return state

    def _do_return(self, node: ast.Return, state: State) -> None:
        value = self.value(node.value, state) if node.value is not None else ABSENT
        self._leave(value, state)

    def _do_raise(self, node: ast.Raise, state: State) -> None:
        if node.exc is not None:
            self.value(node.exc, state)

    def _do_break(self, _node: ast.Break, state: State) -> None:
        if self._loops:
            self._loops[-1][0].append(state)

    def _do_continue(self, _node: ast.Continue, state: State) -> None:
        if self._loops:
            self._loops[-1][1].append(state)

    def _do_assign(self, node: ast.Assign, state: State) -> State:
        value = self.value(node.value, state)
        for target in node.targets:
            self.assign(target, value, state)
        return state

    def _do_annassign(self, node: ast.AnnAssign, state: State) -> State:
        if node.value is not None:
            value = self.value(node.value, state)
            hint = class_of_annotation(node.annotation)
            if value.cls is None and hint is not None and self.solver.class_named(hint) is not None:
                value = replace(value, cls=hint)
            self.assign(node.target, value, state)
        return state

    def _do_augassign(self, node: ast.AugAssign, state: State) -> State:
        before = self.value(node.target, state)
        self.use(Use.ARITHMETIC, node.target, before, state)
        self.use(Use.ARITHMETIC, node.value, self.value(node.value, state), state)
        self.assign(node.target, Value(SOME, kind=before.kind), state)
        return state

    def _do_if(self, node: ast.If, state: State) -> State | None:
        holds, fails = self.condition(node.test, state)
        return self._merge(self.block(node.body, holds), self.block(node.orelse, fails))

    def _do_while(self, node: ast.While, state: State) -> State | None:
        return self._loop(state, node.body, node.orelse, lambda entry: self.condition(node.test, entry))

    def _do_for(self, node: ast.For | ast.AsyncFor, state: State) -> State | None:
        iterable = self.value(node.iter, state)
        self.use(Use.ITERATION, node.iter, iterable, state)

        def enter(entry: State) -> tuple[State | None, State | None]:
            inside = entry.copy()
            self.assign(node.target, self.element(iterable), inside)
            return inside, entry

        return self._loop(state, node.body, node.orelse, enter)

    _do_asyncfor = _do_for

    def _loop(
        self,
        state: State,
        body: Sequence[ast.stmt],
        orelse: Sequence[ast.stmt],
        enter: Callable[[State], tuple[State | None, State | None]],
    ) -> State | None:
        entry: State | None = state
        done: State | None = None
        broken: list[State] = []
        for _ in range(_LOOP_ROUNDS):
            if entry is None:
                break
            before = dict(entry.cells)
            inside, done = enter(entry.copy())
            broken = []
            continued: list[State] = []
            self._loops.append((broken, continued))
            end = self.block(body, inside)
            self._loops.pop()
            for extra in (end, *continued):
                entry = self._merge(entry, extra)
            if entry is None or entry.cells == before:
                break
        result = self.block(orelse, done)
        for extra in broken:
            result = self._merge(result, extra)
        return result

    def _do_with(self, node: ast.With | ast.AsyncWith, state: State) -> State | None:
        for item in node.items:
            value = self.value(item.context_expr, state)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, fresh(value), state)
        return self.block(node.body, state)

    _do_asyncwith = _do_with

    def _do_try(self, node: ast.Try, state: State) -> State | None:
        started = state.copy()
        end = self.block(node.body, state)
        handled: State | None = None
        for handler in node.handlers:
            entry = merge(started.copy(), end.copy() if end is not None else None, self)
            handled = self._merge(handled, self.block(handler.body, entry))
        end = self._merge(self.block(node.orelse, end), handled)
        if end is None:
            self.block(node.finalbody, started)
            return None
        return self.block(node.finalbody, end)

    _do_trystar = _do_try

    def _do_match(self, node: ast.Match, state: State) -> State | None:
        self.value(node.subject, state)
        result: State | None = state.copy()
        for case in node.cases:
            result = self._merge(result, self.block(case.body, state.copy()))
        return result

    def _do_assert(self, node: ast.Assert, state: State) -> State | None:
        tested = state.copy()
        holds, _ = self.condition(node.test, tested)
        for value, expression, subject in self._demanded(node.test, state):
            self.use(Use.ASSERT, expression, value, state, subject)
        if holds is None or any(key[0] >= node.lineno for key in self.hits):
            holds, _ = self.condition(node.test, state)
        return holds

    def _demanded(self, test: ast.expr, state: State) -> list[tuple[Value, ast.expr, ast.expr]]:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return [found for part in test.values for found in self._demanded(part, state)]
        wanted: ast.expr | None = None
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.IsNot):
            wanted = test.left if _is_none(test.comparators[0]) else None
        elif isinstance(test, ast.Call) and last_name(test.func) == "isinstance" and test.args:
            wanted = test.args[0]
        elif isinstance(test, (ast.Name, ast.Attribute)):
            wanted = test
        if wanted is None:
            return []
        value = self.value(wanted, state)
        return [(value, test, wanted)] if value.missing else []

    def _do_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, state: State) -> State:
        inner = state.copy()
        for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            hint = class_of_annotation(parameter.annotation)
            inner.cells[local(parameter.arg)] = Value(ANY, cls=self.solver.class_of_name(parameter.arg, hint))
        outer, self.summary = self.summary, Summary()
        loops, self._loops = self._loops, []
        self.block(node.body, inner)
        self.summary, self._loops = outer, loops
        state.cells[local(node.name)] = PRESENT
        return state

    _do_asyncfunctiondef = _do_functiondef

    def _do_classdef(self, _node: ast.ClassDef, state: State) -> State:
        return state

    def _do_delete(self, _node: ast.Delete, state: State) -> State:
        return state

    def _merge(self, left: State | None, right: State | None) -> State | None:
        return merge(left, right, self)

    # Conditions

    def condition(self, node: ast.expr, state: State) -> tuple[State | None, State | None]:
        """Return the states in which the test holds and fails; None for one that cannot happen."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            holds, fails = self.condition(node.operand, state)
            return fails, holds
        if isinstance(node, ast.BoolOp):
            return self._junction(node, state)
        if isinstance(node, ast.Compare):
            return self._comparison(node, state)
        if isinstance(node, ast.Call):
            return self._call_condition(node, state)
        return self._truthiness(self.value(node, state), state)

    def _junction(self, node: ast.BoolOp, state: State) -> tuple[State | None, State | None]:
        wanted = isinstance(node.op, ast.Or)
        current: State | None = state
        decided: State | None = None
        for operand in node.values:
            if current is None:
                break
            holds, fails = self.condition(operand, current)
            stop, current = (holds, fails) if wanted else (fails, holds)
            decided = self._merge(decided, stop)
        return (decided, current) if wanted else (current, decided)

    def _comparison(self, node: ast.Compare, state: State) -> tuple[State | None, State | None]:
        operator, right = node.ops[0], node.comparators[0]
        single = len(node.ops) == 1
        positive = isinstance(operator, (ast.Is, ast.Eq))
        if single and isinstance(operator, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)) and _is_none(right):
            fails, holds = self._split(self.value(node.left, state), state)
            return (holds, fails) if positive else (fails, holds)
        if single and isinstance(operator, (ast.In, ast.NotIn)) and _is_none(node.left):
            elements = right.elts if isinstance(right, (ast.Tuple, ast.List)) else []
            present: State | None = state
            for element in elements:
                if present is not None:
                    present, _ = self._split(self.value(element, present), present)
            absent = state.copy()
            return (absent, present) if isinstance(operator, ast.In) else (present, absent)
        left = self.value(node.left, state)
        if single and left.modes is not None:
            decided = {mode: compare_mode(node, mode) for mode in left.modes}
            if None not in decided.values():
                return self._by_mode(left, decided, state)
        self.compare(node, state)
        return state, state.copy()

    def _split(self, value: Value, state: State) -> tuple[State | None, State | None]:
        """Return the states in which a value is there and in which it is None."""
        present, absent = state.copy(), state.copy()
        there = present.narrow(value, SOME)
        gone = absent.narrow(value, NONE)
        return (present if there else None), (absent if gone else None)

    def _by_mode(
        self, value: Value, decided: dict[str, bool | None], state: State
    ) -> tuple[State | None, State | None]:
        sides: list[State | None] = []
        for wanted in (True, False):
            modes = frozenset(mode for mode, holds in decided.items() if holds is not (not wanted))
            side = state.copy() if modes else None
            if side is not None:
                side.restrict_modes(value, modes)
                side.mode_checked = side.mode_checked or None not in decided.values()
            sides.append(side)
        return sides[0], sides[1]

    def _call_condition(self, node: ast.Call, state: State) -> tuple[State | None, State | None]:
        function = node.func
        name = last_name(function)
        if name == "isinstance" and len(node.args) == 2:
            return self._instance_test(node, state)
        if name == "bool" and len(node.args) == 1:
            return self.condition(node.args[0], state)
        if name in ("all", "any") and len(node.args) == 1:
            verdict = self._quantified(name, node.args[0], state)
            if verdict is not None:
                return verdict
        if isinstance(function, ast.Attribute):
            fixed = self.solver.fixed_answer(function)
            if fixed is not None:
                return (state, None) if fixed else (None, state)
            if self.solver.modes.is_predicate(name):
                base = self.value(function.value, state)
                if base.modes is not None:
                    decided = {mode: self.solver.modes.holds(name, mode, node) for mode in base.modes}
                    return self._by_mode(base, decided, state)
        return self._truthiness(self.value(node, state), state)

    def _quantified(
        self, name: str, test: ast.expr, state: State
    ) -> tuple[State | None, State | None] | None:
        if not isinstance(test, (ast.GeneratorExp, ast.ListComp)) or len(test.generators) != 1:
            return None
        generator = test.generators[0]
        checks = isinstance(test.elt, ast.Compare) and _is_none(test.elt.comparators[0])
        if not checks or not isinstance(generator.iter, (ast.Tuple, ast.List)) or generator.ifs:
            return None
        assert isinstance(test.elt, ast.Compare)
        absent = isinstance(test.elt.ops[0], ast.Is)
        if absent == (name == "all"):
            return None
        present: State | None = state
        for element in generator.iter.elts:
            if present is not None:
                present, _ = self._split(self.value(element, present), present)
        other = state.copy()
        return (present, other) if name == "all" else (other, present)

    def _instance_test(self, node: ast.Call, state: State) -> tuple[State | None, State | None]:
        value = self.value(node.args[0], state)
        wanted = last_name(node.args[1])
        if value.kind in ("list", "Tensor") and wanted in ("list", "Tensor") and value.nulls == SOME:
            return (state, None) if value.kind == wanted else (None, state)
        present, _ = self._split(value, state)
        if present is not None and wanted:
            for cell, held in present.cells.items():
                if held.identity == value.identity and held.cls is None and self.solver.class_named(wanted):
                    present.cells[cell] = replace(held, cls=wanted)
        return present, state.copy()

    def _truthiness(self, value: Value, state: State) -> tuple[State | None, State | None]:
        if value.truth is not None:
            return (state, None) if value.truth else (None, state)
        if value.refinement is not None:
            holds, fails = state.copy(), state.copy()
            truly = holds.apply(value.refinement.when_true)
            falsely = fails.apply(value.refinement.when_false)
            return (holds if truly else None), (fails if falsely else None)
        if value.nulls == NONE:
            return None, state
        present, _ = self._split(value, state)
        return present, state.copy()


def _is_mode(parameter: ast.arg) -> bool:
    return parameter.arg == "forward_mode" or class_of_annotation(parameter.annotation) == facts.MODE_CLASS


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
