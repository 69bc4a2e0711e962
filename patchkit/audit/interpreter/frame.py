"""The state of one function's run: the objects that it made, its writes, and the uses that fail."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.audit import facts
from patchkit.audit.buffers import KIND, always_refreshed
from patchkit.audit.context import Hit
from patchkit.audit.rules import Use
from patchkit.audit.values import ANY, NONE, SOME, Cell, Environment, Value, fresh, join
from patchkit.findings.finding import Step
from patchkit.tree import mirror
from patchkit.tree.index import Class, last_name

if TYPE_CHECKING:
    from patchkit.audit.context import Context
    from patchkit.audit.solver import Solver


ENUM = "member "
"""Prefix of the kind of a value that is one member of an enum; the member's name follows."""

_AUTO = ast.dump(ast.parse("auto()", mode="eval").body)


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


def _with_identity(value: Value, obj: str, cls: str | None) -> Value:
    named = value.copy()
    named.obj, named.cls = obj, cls
    return named


class Frame(ABC):
    """The run of one function in one context; the classes on it evaluate its parts."""

    def __init__(self, solver: Solver, context: Context) -> None:
        self.solver = solver
        self.context = context
        self.module = context.function.module
        self.hits: dict[tuple[int, int, str], Hit] = {}
        self.parameters: dict[str, str] = {}
        self.classes: dict[str, str | None] = {}
        self.written: set[Cell] = set()
        self.created: set[str] = set()

    @abstractmethod
    def value(self, node: ast.expr, env: Environment) -> Value:
        """Evaluate an expression; its side effects are applied to ``env``."""

    @abstractmethod
    def assign(self, target: ast.expr, value: Value, env: Environment) -> None:
        """Bind a value to a target."""

    def use(
        self, use: Use, node: ast.expr, value: Value, env: Environment, subject: ast.expr | None = None
    ) -> None:
        """Record a use that fails if the value is None, and continue as if it had succeeded.

        ``node`` is the whole expression that fails, ``subject`` the part of it that is None.
        """
        if not value.missing:
            if use in (Use.ARRAY, Use.BUILTIN):
                for item in value.items or ():
                    self.use(use, node, item, env, subject)
            return
        key = (node.lineno, node.col_offset, use.rule)
        self.hits[key] = Hit(use, node, subject or node, value, env.mode_checked)
        if use.fatal:
            for cell, held in env.cells.items():
                if held.identity == value.identity:
                    env.cells[cell] = replace(held, nulls=SOME, tainted=False)

    def use_stale(self, node: ast.expr, value: Value, env: Environment) -> None:
        """Record the use of a buffer that was not refilled in place of a batch's missing mirror."""
        if value.kind != KIND or always_refreshed(self.module):
            return
        for held in list(env.cells.values()):
            if held.obj is not None and held.cls in mirror.BATCH_CLASSES:
                lens = self.read_field(held, mirror.MIRROR[0], env)
                if lens.missing and lens.nulls == NONE:
                    self.use(Use.STALE, node, lens, env)
                    return

    def step(self, node: ast.AST, text: str) -> Step:
        """Return a step of a trail at a node of this function."""
        return Step(self.module.file, getattr(node, "lineno", self.context.function.node.lineno), text)

    def with_object(self, value: Value, node: ast.expr, env: Environment) -> Value:
        """Return the value with an object name for its attributes: its own, or the path in the source."""
        if value.obj is not None:
            return value
        path = dotted(node)
        if path is None:
            return value
        cls = value.cls or self.solver.class_of_name(last_name(node), None)
        obj, identity = f"path:{path}", value.identity
        for cell in [cell for cell, held in env.cells.items() if held.identity == identity]:
            env.cells[cell] = _with_identity(env.cells[cell], obj, cls)
        return _with_identity(value, obj, cls)

    def read_field(self, base: Value, name: str, env: Environment, node: ast.expr | None = None) -> Value:
        """Return the value of an attribute, from an earlier write or from its class."""
        if base.obj is None:
            return Value(ANY, cls=self.solver.class_of_name(name, None))
        cell = ("field", base.obj, name)
        value = env.cells.get(cell)
        if value is None:
            value = self.default_field(base, name, node)
            env.cells[cell] = value
        return value

    def default_field(self, base: Value, name: str, node: ast.AST | None = None) -> Value:
        """Return the value of an attribute that this function has not set."""
        solver, step = self.solver, self.context.step
        if name in facts.ALWAYS_TRUE:
            return Value(SOME, truth=True)
        if name in facts.ALWAYS_FALSE or name in solver.forced_false:
            return Value(SOME, truth=False)
        if name in solver.forced_true:
            return Value(SOME, truth=True)
        if solver.is_record(base.cls):
            where = self.step(node or self.context.function.node, "")
            if name in mirror.TRACKED:
                return solver.default_mirror(base.cls, name, step, where)
            if name in facts.EXTEND_LENS and base.cls == "ForwardBatch" and "DRAFT" in step:
                return Value(SOME)
            if name == "forward_mode" and base.cls in mirror.BATCH_CLASSES:
                return Value(SOME, modes=frozenset({step}))
            if facts.MODE_NAME.match(name) and base.cls in mirror.BATCH_CLASSES:
                return Value(ANY, modes=frozenset({step}))
            if name == facts.SPEC_INPUT and base.cls in mirror.BATCH_CLASSES:
                return Value(SOME, cls=facts.SPEC_INPUT_ROOT, obj=f"{base.obj}.{name}")
        if facts.PREFILL_METADATA.search(name) and solver.cleared(base.cls, name):
            return Value(NONE)
        modes = solver.stored_modes(base.cls, name) if facts.MODE_NAME.match(name) else None
        if modes is not None:
            return Value(SOME, modes=modes)
        stored = solver.stored_field(self.context, base.cls, name)
        hint = solver.class_of_attribute(base.cls, name)
        if stored is not None:
            return fresh(replace(stored, cls=stored.cls or hint))
        return Value(ANY, cls=hint)

    def new_object(self, node: ast.AST, cls: str | None, env: Environment) -> str:
        """Return a name for the object that is created at a node, and clear its attributes."""
        obj = f"new:{getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)}"
        for cell in [cell for cell in env.cells if cell[0] == "field" and cell[1] == obj]:
            del env.cells[cell]
        self.classes[obj] = cls
        self.created.add(obj)
        return obj

    def forget(self, name: str, env: Environment) -> None:
        """Clear what is known of the attributes of a local that is bound again."""
        prefix = f"path:{name}"
        inside = f"{prefix}."
        stale = [
            cell
            for cell in env.cells
            if cell[0] == "field" and (cell[1] == prefix or cell[1].startswith(inside))
        ]
        for cell in stale:
            del env.cells[cell]

    def constant(self, node: ast.Attribute) -> str | None:
        """Return ``Class.MEMBER`` for a member of an enum of the tree, else None."""
        if not (isinstance(node.value, ast.Name) and node.attr.isupper()) or self.is_local(node.value.id):
            return None
        cls = self.solver.program.resolve(self.module, node.value.id)
        if not isinstance(cls, Class) or node.attr not in cls.fields:
            return None
        # Two names with one value are aliases, which no test can distinguish.
        values = [ast.dump(value) for value in cls.fields.values() if value is not None]
        is_distinct = all(value == _AUTO or values.count(value) == 1 for value in values)
        return f"{ENUM}{cls.name}.{node.attr}" if is_distinct and self.solver.program.is_enum(cls) else None

    def is_local(self, name: str) -> bool:
        """Return whether the function binds a name, so that it is not the module's."""
        return name in self.parameters or name in self.context.function.assigned

    def handed_over(self, value: Value, env: Environment) -> dict[str, Value]:
        """Return the attributes of an argument that are passed to the callee."""
        if value.obj is None or value.modes is not None:
            return {}
        if self.solver.is_record(value.cls):
            for name in (*mirror.TRACKED, "forward_mode"):
                self.read_field(value, name, env)
        values: dict[str, Value] = {}
        nested = env.cells.get(("field", value.obj, "spec_info"))
        inner = nested.obj if nested is not None else None
        for cell, held in env.cells.items():
            if cell[1] != value.obj and (inner is None or cell[1] != inner):
                continue
            if cell[2] in mirror.TRACKED or held.modes is not None or held.tainted or held.kind is not None:
                values[cell[2] if cell[1] == value.obj else f"spec_info.{cell[2]}"] = held
        return values

    def merge(self, left: Environment | None, right: Environment | None) -> Environment | None:
        """Join two states; an attribute that one side never touched joins with its initial value."""
        if left is None or right is None:
            return left if right is None else right
        if left.cells is right.cells:
            return left
        cells = {**right.cells, **left.cells}
        merged = Environment(cells, left.mode_checked and right.mode_checked)
        other, written = right.cells, self.written
        differing = [
            (cell, value) for cell, value in cells.items() if other.get(cell) is not value or cell in written
        ]
        for cell, value in differing:
            mine, theirs = left.cells.get(cell), other.get(cell)
            if mine is theirs:
                continue
            if mine is not None and theirs is not None:
                cells[cell] = self.either((mine, left), (theirs, right), ".".join(cell), merged)
            elif cell[0] == "field" and cell in self.written and not cell[1].startswith("new:"):
                owner = Value(SOME, obj=cell[1], cls=self.classes.get(cell[1]))
                cells[cell] = join(value, self.default_field(owner, cell[2]))
        return merged

    def either(
        self, left: tuple[Value, Environment], right: tuple[Value, Environment], name: str, env: Environment
    ) -> Value:
        """Join two values from two states; for two batches, their attributes are joined under ``name``, too."""
        value = join(left[0], right[0])
        are_two_objects = value.obj is None and left[0].obj is not None and right[0].obj is not None
        if not are_two_objects or value.cls not in mirror.BATCH_CLASSES:
            return value
        obj = f"new:either:{name}"
        for attribute in (*mirror.TRACKED, "forward_mode"):
            fields = (self.read_field(side, attribute, state) for side, state in (left, right))
            env.cells[("field", obj, attribute)] = join(*fields)
        return replace(value, obj=obj)
