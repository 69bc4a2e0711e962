"""Find the statements, calls and functions that set given attributes of a function's first argument."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from patchkit.doctor.evaluation.values import Instance
from patchkit.tree.index import Class, Function
from patchkit.tree.nodes import is_named, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from patchkit.doctor.evaluation.memory import KnownValues
    from patchkit.doctor.evaluation.values import CallFrame
    from patchkit.tree.index import Module, Program


class Assignments:
    """The assignments of one tree's functions; functions to which it passes its argument are followed."""

    def __init__(self, program: Program, memory: KnownValues) -> None:
        self._program = program
        self._memory = memory

    def settling_statements(self, function: Function, frame: CallFrame) -> list[ast.stmt]:
        """Return the statements on which the wanted attributes of the first argument depend."""
        cls = getattr(frame.names.get(frame.itself), "cls", None)
        statements: list[ast.stmt] = self._memory.value(
            ("slice", function, frame.itself, frame.wanted, cls), lambda: self._slice(function, frame)
        )
        return statements

    def _slice(self, function: Function, frame: CallFrame) -> list[ast.stmt]:
        body = function.node.body
        locals_needed: set[str] = set()
        while True:
            chosen = [statement for statement in body if self._is_needed(statement, frame, locals_needed)]
            read = {
                node.id
                for statement in chosen
                for node in walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
            } - {frame.itself}
            if read <= locals_needed:
                return chosen
            locals_needed |= read

    def _is_needed(self, statement: ast.stmt, frame: CallFrame, locals_needed: set[str]) -> bool:
        assert frame.wanted is not None
        if isinstance(statement, ast.FunctionDef):
            return statement.name in locals_needed
        if isinstance(statement, ast.ClassDef):
            return False
        for node in self._acts(statement):
            if (
                isinstance(node, ast.Return)
                or (isinstance(node, ast.Name) and node.id in locals_needed)
                or sets(node, frame.itself, frame.wanted)
            ):
                return True
            if isinstance(node, ast.Call) and any(
                self.assigns(target, frame.wanted, None, place)
                for target, place in self.receivers(
                    node, frame.module, frame.owner, frame.itself, frame.names
                )
            ):
                return True
        return False

    def _acts(self, statement: ast.stmt) -> list[ast.AST]:
        """Return what a statement assigns, calls and returns; it is called once for each wanted attribute."""
        nodes: list[ast.AST] = self._memory.value(
            ("acts", statement), lambda: [node for node in walk(statement) if _acts(node)]
        )
        return nodes

    def receivers(
        self, node: ast.Call, module: Module, owner: Class | None, itself: str, names: Mapping[str, Any]
    ) -> list[tuple[Function, str]]:
        """Return the functions that may receive ``itself`` from a call, each with the parameter that receives it."""
        func = node.func
        position = _place(node, itself)
        if isinstance(func, ast.Attribute):
            cls = getattr(names.get(itself), "cls", None) or owner
            method = None
            if is_named(func.value, itself):
                method = self._program.method(cls, func.attr) if cls is not None else None
                return [(method, first_parameter(method))] if method is not None else []
            if isinstance(func.value, ast.Call) and getattr(func.value.func, "id", "") == "super":
                method = self._program.method(cls, func.attr, owner) if cls is not None else None
                return [(method, first_parameter(method))] if method is not None else []
            if position is None:
                return []
            # The class is known only when the call runs; until then any method of this name counts.
            return self._methods_named(func.attr, position)
        if position is None or not isinstance(func, ast.Name):
            return []
        called = self._program.resolve(module, func.id)
        receivers = [(called, _parameter(called, position))] if isinstance(called, Function) else []
        return [(function, place) for function, place in receivers if place]

    def _methods_named(self, name: str, position: int | str) -> list[tuple[Function, str]]:
        """Return every method of a name, each with its parameter for an argument."""

        def all_named() -> list[Function]:
            text = f"def {name}(".encode()
            files = [file for file, source in self._program.sources.items() if text in source]
            modules = [module for file in files if (module := self._program.module(file)) is not None]
            classes = [cls for module in modules for cls in module.classes.values()]
            return [cls.methods[name] for cls in classes if name in cls.methods]

        methods: list[Function] = self._memory.value(("methods", name), all_named)
        return [(method, place) for method in methods if (place := _parameter(method, position, skip=1))]

    def assigns(
        self, function: Function, wanted: frozenset[str], cls: Class | None, itself: str = ""
    ) -> bool:
        """Return whether a function may set a wanted attribute of an argument, by default the first."""
        itself = itself or first_parameter(function)
        key = function, wanted, cls, itself
        if key not in self._memory:
            self._memory[key] = False
            names = {itself: Instance(cls)} if cls is not None else {}
            self._memory[key] = any(
                sets(node, itself, wanted)
                or (
                    isinstance(node, ast.Call)
                    and any(
                        self.assigns(function, wanted, cls, place)
                        for function, place in self.receivers(
                            node, function.module, function.owner, itself, names
                        )
                    )
                )
                for node in self._acts(function.node)
            )
        return bool(self._memory[key])


def _acts(node: ast.AST) -> bool:
    """Return whether a node calls or returns, or is a name or an attribute to which a value is assigned."""
    return isinstance(node, (ast.Call, ast.Return)) or isinstance(getattr(node, "ctx", None), ast.Store)


def sets(node: ast.AST, itself: str, wanted: Iterable[str]) -> bool:
    """Return whether a node sets, or appends to, a wanted attribute."""
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "append":
        node = node.func.value  # type: ignore[attr-defined]
    elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Store):
        return False
    return isinstance(node, ast.Attribute) and node.attr in wanted and is_named(node.value, itself)


def first_parameter(function: Function) -> str:
    """Return the name of the first parameter, an empty name if there is none."""
    return function.node.args.args[0].arg if function.node.args.args else ""


def _place(call: ast.Call, itself: str) -> int | str | None:
    """Return the position or the keyword of ``itself`` among a call's arguments."""
    for place, arg in enumerate(call.args):
        if is_named(arg, itself):
            return place
    return next((word.arg for word in call.keywords if word.arg and is_named(word.value, itself)), None)


def _parameter(function: Function, position: int | str, skip: int = 0) -> str:
    """Return the parameter that receives an argument, an empty name if none does."""
    if isinstance(position, str):
        return position
    positional = [*function.node.args.posonlyargs, *function.node.args.args]
    skip *= "staticmethod" not in function.decorators
    return positional[position + skip].arg if position + skip < len(positional) else ""
