"""Evaluate expressions abstractly, so that every use of a value that can be None is seen where it happens."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from patchkit.audit import facts
from patchkit.audit.interpreter.values import (
    ABSENT,
    ANY,
    NONE,
    PRESENT,
    SOME,
    UNKNOWN,
    Cell,
    Refinement,
    State,
    Step,
    Value,
    fresh,
    join,
)
from patchkit.audit.modes import mode_member
from patchkit.audit.rules import Use
from patchkit.tree.index import Class, Function, last_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patchkit.audit.solver import Context, Solver

_CONSUMERS = frozenset(
    {
        "abs",
        "all",
        "any",
        "enumerate",
        "float",
        "frozenset",
        "int",
        "iter",
        "len",
        "list",
        "map",
        "max",
        "min",
    }
    | {"next", "range", "reversed", "round", "set", "sorted", "sum", "tuple", "zip"}
)
_ARRAY_MODULES = frozenset({"F", "np", "numpy", "torch"})
_ARRAY_METHODS = frozenset({"allclose", "equal", "extend", "gather", "index_select", "new_tensor", "scatter"})
_COPIERS = frozenset({"copy", "deepcopy", "replace"})
_ORDERINGS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_SELF = "param:self"


@dataclass(frozen=True)
class Hit:
    """A use of a value that can be None, and whether a mode was tested on the way there."""

    use: Use
    node: ast.expr
    subject: ast.expr
    value: Value
    mode_checked: bool


@dataclass
class Summary:
    """What a caller sees of a call: the result, its attributes, and those written on arguments."""

    result: Value = ABSENT
    result_fields: dict[str, Value] = field(default_factory=dict)
    writes: dict[tuple[str, str], Value] = field(default_factory=dict)
    returns: bool = False

    def facts(self) -> tuple[object, ...]:
        """Return everything on which the equality of two summaries rests."""
        return self.result, self.result_fields, self.writes, self.returns


def dotted(node: ast.expr) -> str | None:
    """Return ``a.b.c`` for a chain of names, else None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else None
    return None


def local(name: str) -> Cell:
    """Return the cell of a local variable."""
    return ("local", name, "")


class Expressions:
    """The expression half of the interpreter of one function in one context."""

    def __init__(self, solver: Solver, context: Context) -> None:
        self.solver = solver
        self.context = context
        self.module = context.function.module
        self.hits: dict[tuple[int, int, str], Hit] = {}
        self.parameters: dict[str, str] = {}
        self.classes: dict[str, str | None] = {}
        self.written: set[Cell] = set()
        self.created: set[str] = set()

    # Hooks of the other half

    def condition(self, node: ast.expr, state: State) -> tuple[State | None, State | None]:
        """Return the states in which the test holds and fails."""
        raise NotImplementedError

    # Uses

    def use(
        self, use: Use, node: ast.expr, value: Value, state: State, subject: ast.expr | None = None
    ) -> None:
        """Record a use that fails when the value is None, and go on as if it had not failed.

        ``node`` is the whole expression that fails, ``subject`` the part of it that is None.
        """
        if not value.missing:
            if use in (Use.ARRAY, Use.BUILTIN):
                for item in value.items or ():
                    self.use(use, node, item, state, subject)
            return
        key = (node.lineno, node.col_offset, use.rule)
        self.hits[key] = Hit(use, node, subject or node, value, state.mode_checked)
        if use.fatal:
            for cell, held in state.cells.items():
                if held.identity == value.identity:
                    state.cells[cell] = replace(held, nulls=SOME, tainted=False)

    def step(self, node: ast.AST, text: str) -> Step:
        """Return a step of a trail at a node of this function."""
        return Step(self.module.file, getattr(node, "lineno", self.context.function.node.lineno), text)

    # Evaluation

    def value(self, node: ast.expr, state: State) -> Value:
        """Evaluate an expression; its side effects land in ``state``."""
        handler: Callable[[ast.expr, State], Value] | None = getattr(
            self, f"_value_{type(node).__name__.lower()}", None
        )
        if handler is not None:
            return handler(node, state)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child, state)
        return PRESENT

    def _value_constant(self, node: ast.Constant, _state: State) -> Value:
        if node.value is None:
            return fresh(ABSENT)
        return Value(SOME, truth=bool(node.value)) if isinstance(node.value, (bool, int)) else PRESENT

    def _value_name(self, node: ast.Name, state: State) -> Value:
        cell = local(node.id)
        value = state.cells.get(cell)
        if value is None:
            value = Value(ANY, cls=self.solver.class_of_name(node.id, None))
            if node.id == "TYPE_CHECKING":
                value = Value(SOME, truth=False)
            state.cells[cell] = value
        return value

    def _value_attribute(self, node: ast.Attribute, state: State) -> Value:
        member = mode_member(node)
        if member is not None:
            return Value(SOME, modes=frozenset({member}))
        base = self.value(node.value, state)
        if base.kind == "backend slot" and node.attr == facts.FLAG:
            self.use(Use.SLOT, node, base, state, node.value)
        elif base.kind != "backend slot":
            self.use(Use.ATTRIBUTE, node, base, state, node.value)
        return self.read_field(self.with_object(base, node.value, state), node.attr, state, node)

    def with_object(self, value: Value, node: ast.expr, state: State) -> Value:
        """Give a value a name for its attributes: that of its object, or the path in the code."""
        if value.obj is not None:
            return value
        path = dotted(node)
        if path is None:
            return value
        cls = value.cls or self.solver.class_of_name(last_name(node), None)
        named = replace(value, obj=f"path:{path}", cls=cls)
        for cell, held in state.cells.items():
            if held.identity == value.identity:
                state.cells[cell] = replace(held, obj=named.obj, cls=cls)
        return named

    def read_field(self, base: Value, name: str, state: State, node: ast.expr | None = None) -> Value:
        """Return what an attribute holds, from what was written before or from what is known of its class."""
        if base.obj is None:
            return Value(ANY, cls=self.solver.class_of_name(name, None))
        cell = ("field", base.obj, name)
        value = state.cells.get(cell)
        if value is None:
            value = self.default_field(base, name, node)
            state.cells[cell] = value
        return value

    def default_field(self, base: Value, name: str, node: ast.AST | None = None) -> Value:
        """Return what an attribute holds when this function has not touched it."""
        solver, step = self.solver, self.context.step
        if name in facts.ALWAYS_TRUE:
            return Value(SOME, truth=True)
        if name in facts.ALWAYS_FALSE or name in solver.forced_false:
            return Value(SOME, truth=False)
        if name in solver.forced_true:
            return Value(SOME, truth=True)
        if solver.is_record(base.cls):
            where = self.step(node or self.context.function.node, "")
            if name in facts.TRACKED:
                return solver.default_mirror(base.cls, name, step, where)
            if name == "forward_mode" and base.cls in facts.BATCH_CLASSES:
                return Value(SOME, modes=frozenset({step}))
            if name == "spec_info" and base.cls in facts.BATCH_CLASSES:
                return Value(SOME, cls=facts.SPEC_INPUT_ROOT, obj=f"{base.obj}.spec_info")
        stored = solver.stored_field(self.context, base.cls, name)
        hint = solver.class_of_attribute(base.cls, name)
        if stored is not None:
            return fresh(replace(stored, cls=stored.cls or hint))
        return Value(ANY, cls=hint)

    def _value_subscript(self, node: ast.Subscript, state: State) -> Value:
        base = self.value(node.value, state)
        self.use(Use.SUBSCRIPT, node, base, state, node.value)
        if isinstance(node.slice, ast.Slice):
            for bound in (node.slice.lower, node.slice.upper, node.slice.step):
                if bound is not None:
                    self.use(Use.SLICE, bound, self.value(bound, state), state)
        else:
            self.value(node.slice, state)
            index = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if (
                base.items is not None
                and isinstance(index, int)
                and -len(base.items) <= index < len(base.items)
            ):
                return base.items[index]
        return PRESENT if base.kind in ("list", "Tensor") else Value(ANY)

    def _value_binop(self, node: ast.BinOp, state: State) -> Value:
        left, right = self.value(node.left, state), self.value(node.right, state)
        self.use(Use.ARITHMETIC, node, left, state, node.left)
        self.use(Use.ARITHMETIC, node, right, state, node.right)
        return Value(SOME, kind=left.kind if left.kind in ("list", "Tensor") else right.kind)

    def _value_unaryop(self, node: ast.UnaryOp, state: State) -> Value:
        if isinstance(node.op, ast.Not):
            return self.truth_value(node, state)
        self.use(Use.ARITHMETIC, node, self.value(node.operand, state), state, node.operand)
        return PRESENT

    def _value_compare(self, node: ast.Compare, state: State) -> Value:
        return self.truth_value(node, state)

    def compare(self, node: ast.Compare, state: State) -> None:
        """Evaluate both sides of a comparison that is no check for None."""
        sides = [node.left, *node.comparators]
        values = [self.value(side, state) for side in sides]
        for index, operator in enumerate(node.ops):
            if isinstance(operator, _ORDERINGS):
                for side, other in ((index, index + 1), (index + 1, index)):
                    if values[other].nulls != NONE:
                        self.use(Use.COMPARISON, node, values[side], state, sides[side])
            elif isinstance(operator, (ast.In, ast.NotIn)):
                self.use(Use.ITERATION, node, values[index + 1], state, sides[index + 1])

    def truth_value(self, node: ast.expr, state: State) -> Value:
        """Evaluate a condition as a value: its truth if decided, and what it implies."""
        holds, fails = self.condition(node, state.copy())
        if holds is None and fails is None:
            return PRESENT
        joined = merge(holds, fails, self)
        if joined is not None:
            state.cells, state.mode_checked = joined.cells, state.mode_checked
        truth = None if holds is not None and fails is not None else holds is not None
        refinement = Refinement(_narrowings(state, holds), _narrowings(state, fails))
        return Value(SOME, truth=truth, refinement=refinement)

    def _value_boolop(self, node: ast.BoolOp, state: State) -> Value:
        if all(_is_test(value) for value in node.values):
            return self.truth_value(node, state)
        wanted = isinstance(node.op, ast.Or)
        result: Value | None = None
        current: State | None = state.copy()
        left_off: State | None = None
        for index, operand in enumerate(node.values):
            if current is None:
                break
            value = self.value(operand, current)
            if index == len(node.values) - 1:
                result = value if result is None else join(result, value)
                left_off = merge(left_off, current, self)
                break
            holds, fails = self.condition(operand, current)
            stop, current = (holds, fails) if wanted else (fails, holds)
            if stop is not None:
                kept = replace(value, nulls=value.nulls & SOME or SOME, tainted=False) if wanted else value
                result = kept if result is None else join(result, kept)
                left_off = merge(left_off, stop, self)
        if left_off is not None:
            state.cells = left_off.cells
        return result if result is not None else PRESENT

    def _value_ifexp(self, node: ast.IfExp, state: State) -> Value:
        holds, fails = self.condition(node.test, state.copy())
        results = []
        for branch, expression in ((holds, node.body), (fails, node.orelse)):
            if branch is not None:
                results.append(self.value(expression, branch))
        joined = merge(holds, fails, self)
        if joined is not None:
            state.cells = joined.cells
        if not results:
            return PRESENT
        return results[0] if len(results) == 1 else join(results[0], results[1])

    def _value_namedexpr(self, node: ast.NamedExpr, state: State) -> Value:
        value = self.value(node.value, state)
        self.assign(node.target, value, state)
        return value

    def _value_starred(self, node: ast.Starred, state: State) -> Value:
        value = self.value(node.value, state)
        self.use(Use.ITERATION, node, value, state)
        return Value(SOME)

    def _value_await(self, node: ast.Await, state: State) -> Value:
        return self.value(node.value, state)

    def _sequence(self, node: ast.List | ast.Tuple | ast.Set, state: State) -> Value:
        items = tuple(self.value(element, state) for element in node.elts)
        plain = not any(isinstance(element, ast.Starred) for element in node.elts)
        return Value(
            SOME, kind="list" if isinstance(node, ast.List) else None, items=items if plain else None
        )

    _value_list = _value_tuple = _value_set = _sequence

    def _value_lambda(self, node: ast.Lambda, state: State) -> Value:
        inner = state.copy()
        for parameter in (*node.args.args, *node.args.kwonlyargs):
            inner.cells[local(parameter.arg)] = UNKNOWN
        self.value(node.body, inner)
        return PRESENT

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, state: State
    ) -> Value:
        inner: State | None = state.copy()
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
        """Return what one element of an iterable is."""
        if iterable.kind == "backend slots":
            step = self.step(self.context.function.node, "a slot that a configuration leaves unset is None")
            return Value(ANY, tainted=True, kind="backend slot", trail=(step,))
        if iterable.items:
            result = iterable.items[0]
            for item in iterable.items[1:]:
                result = join(result, item)
            return fresh(result)
        return Value(ANY)

    # Assignment

    def assign(self, target: ast.expr, value: Value, state: State) -> None:
        """Bind a value to a target."""
        if isinstance(target, ast.Name):
            self._forget(target.id, state)
            step = self.step(target, f"{target.id} takes that value")
            state.cells[local(target.id)] = value.via(step) if value.missing and value.trail else value
        elif isinstance(target, ast.Attribute):
            base = self.with_object(self.value(target.value, state), target.value, state)
            self.use(Use.ATTRIBUTE, target, base, state, target.value)
            self._assign_field(base, target, value, state)
        elif isinstance(target, ast.Subscript):
            self.use(Use.SUBSCRIPT, target, self.value(target.value, state), state)
            if isinstance(target.slice, ast.Slice):
                self.use(Use.COPY, target, value, state)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.use(Use.ITERATION, target, value, state)
            for index, element in enumerate(target.elts):
                item = value.items[index] if value.items and len(value.items) == len(target.elts) else UNKNOWN
                self.assign(element, fresh(item) if item is UNKNOWN else item, state)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, PRESENT, state)

    def _assign_field(self, base: Value, target: ast.Attribute, value: Value, state: State) -> None:
        name = target.attr
        if base.obj is None:
            return
        if name in facts.TRACKED and value.nulls == NONE and self.solver.is_record(base.cls):
            step = self.step(target, f"{ast.unparse(target)} is set to None")
            value = replace(value, tainted=True, trail=(*value.trail, step))
        elif value.missing:
            value = value.via(self.step(target, f"{ast.unparse(target)} takes that value"))
        if value.modes is not None:
            state.mode_checked = True
        cell = ("field", base.obj, name)
        state.cells[cell] = value
        self.written.add(cell)
        if base.cls is not None and base.cls not in facts.BATCH_CLASSES:
            self.solver.store_field(base.cls, name, value)

    def _forget(self, name: str, state: State) -> None:
        prefix = f"path:{name}"
        stale = [
            cell
            for cell in state.cells
            if cell[0] == "field" and (cell[1] == prefix or cell[1].startswith(f"{prefix}."))
        ]
        for cell in stale:
            del state.cells[cell]

    # Calls

    def _value_call(self, node: ast.Call, state: State) -> Value:
        function = node.func
        if isinstance(function, ast.Name):
            special = self._builtin(function.id, node, state)
            if special is not None:
                return special
            arguments = self._arguments(node, state)
            wanted = any(value.missing for _, _, value in arguments)
            target = self.solver.program.resolve(self.module, function.id, parse=wanted)
            if isinstance(target, Class):
                return self._construct(target.name, target, node, arguments, state)
            if isinstance(target, Function):
                return self._call([(target, None, None)], node, arguments, state)
            if function.id == "cls" and self.context.function.owner is not None:
                name = self.context.self_class or self.context.function.owner.name
                return self._construct(name, self.solver.class_named(name), node, arguments, state)
            if function.id[:1].isupper():
                return self._construct(function.id, None, node, arguments, state)
            return Value(ANY)
        if isinstance(function, ast.Attribute):
            return self._method_call(function, node, state)
        self.value(function, state)
        self._arguments(node, state)
        return Value(ANY)

    def _arguments(self, node: ast.Call, state: State) -> list[tuple[str | None, ast.expr, Value]]:
        found: list[tuple[str | None, ast.expr, Value]] = []
        for argument in node.args:
            value = self.value(argument, state)
            found.append((None, argument, self.with_object(value, argument, state)))
        for keyword in node.keywords:
            value = self.value(keyword.value, state)
            if keyword.arg is None:
                self.use(Use.ITERATION, keyword.value, value, state)
                continue
            found.append((keyword.arg, keyword.value, self.with_object(value, keyword.value, state)))
        return found

    def _builtin(self, name: str, node: ast.Call, state: State) -> Value | None:
        if name == "getattr" and len(node.args) >= 2 and isinstance(node.args[1], ast.Constant):
            base = self.value(node.args[0], state)
            attribute = str(node.args[1].value)
            if len(node.args) == 2:
                slot = base.kind == "backend slot"
                self.use(Use.SLOT if slot else Use.ATTRIBUTE, node, base, state, node.args[0])
            return self.read_field(self.with_object(base, node.args[0], state), attribute, state, node)
        if name == "setattr" and len(node.args) == 3 and isinstance(node.args[1], ast.Constant):
            target = ast.copy_location(
                ast.Attribute(node.args[0], str(node.args[1].value), ast.Store()), node
            )
            self.assign(target, self.value(node.args[2], state), state)
            return PRESENT
        if name in _CONSUMERS:
            values = [self.value(argument, state) for argument in node.args]
            skip = 1 if name == "map" else 0
            for argument, value in zip(node.args[skip:], values[skip:], strict=True):
                self.use(Use.BUILTIN, node, value, state, argument)
            for keyword in node.keywords:
                self.value(keyword.value, state)
            return Value(SOME, kind="list" if name in ("list", "sorted") else None)
        if name == "isinstance":
            return self.truth_value(node, state)
        if name in _COPIERS and node.args:
            return self._copy(node, state)
        return None

    def _copy(self, node: ast.Call, state: State) -> Value:
        (_, _, source), *changes = self._arguments(node, state)
        obj = self._new_object(node, source.cls, state)
        for cell, held in list(state.cells.items()):
            if cell[0] == "field" and cell[1] == source.obj:
                state.cells[("field", obj, cell[2])] = held
        if self.solver.is_record(source.cls):
            for name in (*facts.TRACKED, "forward_mode"):
                state.cells[("field", obj, name)] = self.read_field(source, name, state, node)
        for keyword, _, value in changes:
            if keyword is not None:
                state.cells[("field", obj, keyword)] = value
        return replace(source, obj=obj, identity=fresh(source).identity)

    def _new_object(self, node: ast.AST, cls: str | None, state: State) -> str:
        obj = f"new:{getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)}"
        for cell in [cell for cell in state.cells if cell[0] == "field" and cell[1] == obj]:
            del state.cells[cell]
        self.classes[obj] = cls
        self.created.add(obj)
        return obj

    def _construct(
        self,
        name: str,
        cls: Class | None,
        node: ast.Call,
        arguments: Sequence[tuple[str | None, ast.expr, Value]],
        state: State,
    ) -> Value:
        obj = self._new_object(node, name, state)
        names = self.solver.constructor_fields(cls) if cls is not None else []
        given: dict[str, Value] = {}
        for index, (keyword, argument, value) in enumerate(arguments):
            attribute = keyword or (names[index] if index < len(names) else None)
            if attribute is None:
                continue
            kept = value.via(self.step(argument, f"{name}({attribute}=...) keeps it"))
            given[attribute] = kept
            state.cells[("field", obj, attribute)] = kept
            if name not in facts.BATCH_CLASSES:
                self.solver.store_field(name, attribute, kept)
        if self.solver.is_record(name):
            for attribute in facts.TRACKED:
                if given.get(attribute, ABSENT).nulls == NONE:
                    step = self.step(node, f"{name}(...) leaves {attribute} unset")
                    silent = attribute in facts.EXTEND_MIRROR and not self._drafts(given)
                    value = given.get(attribute, ABSENT)
                    state.cells[("field", obj, attribute)] = replace(
                        fresh(value),
                        nulls=ANY if silent else NONE,
                        tainted=not silent,
                        trail=(*value.trail, step),
                    )
        init = self.solver.program.method(cls, "__init__") if cls is not None else None
        result = Value(SOME, cls=name, obj=obj)
        if init is not None:
            self._call([(init, name, result)], node, arguments, state)
        return result

    def _drafts(self, given: dict[str, Value]) -> bool:
        modes = given["forward_mode"].modes if "forward_mode" in given else None
        return any("DRAFT" in mode for mode in (modes or {self.context.step}))

    def _method_call(self, function: ast.Attribute, node: ast.Call, state: State) -> Value:
        name = function.attr
        if isinstance(function.value, ast.Call) and last_name(function.value.func) == "super":
            return self._super_call(name, node, state)
        root = (dotted(function.value) or "").split(".")[0]
        if root in _ARRAY_MODULES and not self.is_local(root):
            for _, argument, value in self._arguments(node, state):
                self.use(Use.ARRAY, node, value, state, argument)
            return Value(SOME, kind="Tensor")
        if (root in _COPIERS and name in _COPIERS) or (root == "dataclasses" and name == "replace"):
            return self._copy(node, state) if node.args else PRESENT
        base = self.value(function.value, state)
        if base.kind != "backend slot":
            self.use(Use.ATTRIBUTE, function, base, state, function.value)
        base = self.with_object(base, function.value, state)
        arguments = self._arguments(node, state)
        if base.modes is not None and self.solver.modes.is_predicate(name):
            return self.truth_value(node, state)
        if (name.endswith("_") and not name.startswith("_")) or name in _ARRAY_METHODS:
            for _, argument, value in arguments:
                self.use(Use.COPY, node, value, state, argument)
        if isinstance(function.value, ast.Name) and not self.is_local(function.value.id):
            wanted = any(value.missing for _, _, value in arguments)
            target = self.solver.program.resolve(self.module, function.value.id, parse=wanted)
            if isinstance(target, Class):
                method = self.solver.program.method(target, name)
                if method is None:
                    return Value(ANY)
                bound = Value(SOME, cls=target.name) if "classmethod" in method.decorators else None
                return self._call([(method, target.name, bound)], node, arguments, state)
            if target is not None and not isinstance(target, Function):
                member = self.solver.program.resolve(target, name, parse=wanted)
                if isinstance(member, Function):
                    return self._call([(member, None, None)], node, arguments, state)
                if isinstance(member, Class):
                    return self._construct(member.name, member, node, arguments, state)
                return Value(ANY)
        targets = self.solver.method_targets(self.context, base, function, arguments)
        if not targets:
            kind = (
                "Tensor" if base.kind == "Tensor" or name in ("to", "cpu", "clone", "int", "long") else None
            )
            return Value(ANY, kind="list" if name == "tolist" else kind)
        return self._call([(method, cls, base) for method, cls in targets], node, arguments, state)

    def is_local(self, name: str) -> bool:
        """Say whether the function binds a name, so that it does not mean the module's."""
        return name in self.parameters or name in self.context.function.assigned

    def _super_call(self, name: str, node: ast.Call, state: State) -> Value:
        arguments = self._arguments(node, state)
        owner, own = self.context.function.owner, self.solver.class_named(self.context.self_class)
        if owner is None:
            return Value(ANY)
        method = self.solver.program.method(own or owner, name, after=owner)
        if method is None:
            return Value(ANY)
        me = state.cells.get(local(self.context.function.parameters[0].arg)) if self.parameters else None
        mine = self.context.self_class or owner.name
        return self._call([(method, mine, me)], node, arguments, state)

    def _call(
        self,
        targets: Sequence[tuple[Function, str | None, Value | None]],
        node: ast.Call,
        arguments: Sequence[tuple[str | None, ast.expr, Value]],
        state: State,
    ) -> Value:
        results: list[Value] = []
        plain = not any(value.missing for _, _, value in arguments)
        for method, cls, base in targets:
            bound, places = bind(method, base, arguments)
            steps = self._steps(bound, state)
            summaries = self.solver.settled(self.context, method, cls, steps) if plain else None
            if summaries is None:
                entry, fields = self._entry_of(method, bound, places, node, state)
                summaries = self.solver.call(
                    self.context, method, cls, steps, entry=entry, entry_fields=fields
                )
            for summary in summaries:
                self._return(summary, method, bound, node, state)
                results.append(self._result(summary, method, node, state))
        if not results:
            return Value(ANY, cls=self.solver.annotated_result(targets[0][0]))
        merged = results[0]
        for result in results[1:]:
            merged = join(merged, result)
        return merged

    def _steps(self, bound: dict[str, Value], state: State) -> Sequence[str]:
        """Return the kinds of step in which a callee runs: those of the mode or of the batch handed to it."""
        for value in bound.values():
            modes = value.modes
            if modes is None and value.cls in facts.BATCH_CLASSES and value.obj is not None:
                modes = self.read_field(value, "forward_mode", state).modes
            if modes is not None:
                return [step for step in self.solver.modes.mirrorless if step in modes]
        return [self.context.step]

    def _entry_of(
        self,
        method: Function,
        bound: dict[str, Value],
        places: dict[str, ast.expr],
        node: ast.Call,
        state: State,
    ) -> tuple[dict[str, Value], dict[tuple[str, str], Value]]:
        entry: dict[str, Value] = {}
        entry_fields: dict[tuple[str, str], Value] = {}
        for name, value in bound.items():
            step = self.step(places.get(name, node), f"passed to {method.qualname}() as {name}")
            entry[name] = value.via(step)
            for attribute, held in self.handed_over(value, state).items():
                entry_fields[(name, attribute)] = held.via(step)
        return entry, entry_fields

    def handed_over(self, value: Value, state: State) -> dict[str, Value]:
        """Return the attributes of an argument about which the callee should know."""
        if value.obj is None or value.modes is not None:
            return {}
        if self.solver.is_record(value.cls):
            for name in (*facts.TRACKED, "forward_mode"):
                self.read_field(value, name, state)
        found: dict[str, Value] = {}
        nested = state.cells.get(("field", value.obj, "spec_info"))
        inner = nested.obj if nested is not None else None
        for cell, held in state.cells.items():
            if cell[1] != value.obj and (inner is None or cell[1] != inner):
                continue
            if cell[2] in facts.TRACKED or held.modes is not None or held.tainted or held.kind is not None:
                found[cell[2] if cell[1] == value.obj else f"spec_info.{cell[2]}"] = held
        return found

    def _return(
        self, summary: Summary, method: Function, bound: dict[str, Value], node: ast.Call, state: State
    ) -> None:
        for (name, attribute), value in summary.writes.items():
            target = bound.get(name)
            if target is None or target.obj is None:
                continue
            cell = ("field", target.obj, attribute)
            kept = fresh(value).via(self.step(node, f"{method.qualname}() leaves {attribute} so"))
            state.cells[cell] = kept
            self.written.add(cell)

    def _result(self, summary: Summary, method: Function, node: ast.Call, state: State) -> Value:
        if not summary.returns:
            return Value(ANY, cls=self.solver.annotated_result(method))
        result = fresh(summary.result)
        if result.obj is None:
            return result.via(self.step(node, f"{method.qualname}() returns it"))
        obj = self._new_object(node, result.cls, state)
        for attribute, value in summary.result_fields.items():
            state.cells[("field", obj, attribute)] = fresh(value).via(
                self.step(node, f"{method.qualname}() returns it in {attribute}")
            )
        return replace(result, obj=obj)


def bind(
    method: Function, base: Value | None, arguments: Sequence[tuple[str | None, ast.expr, Value]]
) -> tuple[dict[str, Value], dict[str, ast.expr]]:
    """Match arguments with the callee's parameters: what each receives, and the expression that says so.

    Arguments without a parameter of their own are left out.
    """
    names = [parameter.arg for parameter in method.parameters]
    bound: dict[str, Value] = {}
    places: dict[str, ast.expr] = {}
    positional = iter(names)
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


def merge(left: State | None, right: State | None, interpreter: Expressions) -> State | None:
    """Join two states; an attribute that one side never touched is joined with what it held at the start."""
    if left is None or right is None:
        return left if right is None else right
    if left.cells is right.cells:
        return left
    cells: dict[Cell, Value] = {}
    for cell in left.cells.keys() | right.cells.keys():
        mine, theirs = left.cells.get(cell), right.cells.get(cell)
        if mine is None or theirs is None:
            held = mine or theirs
            assert held is not None
            if cell[0] == "field" and cell in interpreter.written and not cell[1].startswith("new:"):
                owner = Value(SOME, obj=cell[1], cls=interpreter.classes.get(cell[1]))
                held = join(held, interpreter.default_field(owner, cell[2]))
            cells[cell] = held
        else:
            cells[cell] = join(mine, theirs)
    return State(cells, left.mode_checked and right.mode_checked)


def _narrowings(before: State, after: State | None) -> dict[int, int] | None:
    if after is None:
        return None
    found: dict[int, int] = {}
    for cell, held in before.cells.items():
        now = after.cells.get(cell)
        if now is not None and now.identity == held.identity and now.nulls != held.nulls:
            found[held.identity] = now.nulls
    return found


def _is_test(node: ast.expr) -> bool:
    if isinstance(node, ast.BoolOp):
        return all(map(_is_test, node.values))
    if isinstance(node, ast.Call):
        return last_name(node.func).startswith(("is_", "has_")) or last_name(node.func) in (
            "isinstance",
            "hasattr",
        )
    return isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
