"""Possible callers of functions, by the name that is called and its receiver, and the functions to audit by both."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.audit import facts
from patchkit.tree import mirror
from patchkit.tree.index import Class, class_of_annotation, is_runtime

if TYPE_CHECKING:
    from patchkit.audit.runners import Runners
    from patchkit.tree.index import Function, Program

_GENERIC = 6
_CALLER_LEVELS = 2


class Callers:
    """The callers of a tree's functions, within the files under analysis."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def of(self, function: Function) -> list[tuple[Function, bool]]:
        """Return the functions that may call ``function``, each with False if only the name suggests it."""
        callers = []
        for receiver, caller in self._calls.get(function.name, ()):
            if caller is function or ((receiver == "") != (function.owner is None) and receiver != "."):
                continue
            if (
                receiver == "self."
                and caller.owner is not None
                and not self._own_call(caller.owner, function)
            ):
                continue
            callers.append((caller, receiver != "."))
        return callers

    def _own_call(self, cls: Class, method: Function) -> bool:
        if self._program.method(cls, method.name) is method:
            return True
        return method.owner is not None and cls in self._program.mro(method.owner)

    @cached_property
    def _calls(self) -> dict[str, list[tuple[str, Function]]]:
        calls: dict[str, list[tuple[str, Function]]] = {}
        for function in self._program.functions():
            for receiver, name in function.called_names:
                calls.setdefault(name, []).append((receiver, function))
        return calls

    @cached_property
    def _definitions(self) -> Counter[str]:
        return Counter(function.name for function in self._program.functions())

    def is_generic(self, name: str) -> bool:
        """Return whether a name is too common to identify a function."""
        return name.startswith("__") or self._definitions[name] > _GENERIC

    def handed_around(self, function: Function) -> bool:
        """Return whether other code names a module-level function that nothing calls under its name."""
        if function.owner is not None or self.of(function):
            return False
        name = function.name.encode()
        return sum(module.text.count(name) for module in self._program.core) > 1


def relevant(program: Program, callers: Callers, runners: Runners) -> frozenset[Function]:
    """Return the functions of a tree to audit: those that name the mirror, and those that pass batches to them."""
    pattern = re.compile("|".join(sorted(mirror.TRACKED | {mirror.FLAG})))
    functions = {function for function in program.functions() if pattern.search(function.source)}
    pending = list(functions)
    for _ in range(_CALLER_LEVELS):
        pending = [
            caller
            for function in pending
            if not callers.is_generic(function.name)
            for caller, _ in callers.of(function)
            if caller not in functions
        ]
        functions.update(pending)
    for cls, holders in runners.holders.items():
        if any(method in functions for method in cls.methods.values()):
            functions.update(holders)
    # The runtime replaces code that named the mirror, whatever its own names are; a function that returns a batch's
    # mode replaces a test of it.
    functions.update(
        function
        for function in program.functions()
        if is_runtime(function.module.file) or _returns_mode(program, function)
    )
    return frozenset(functions)


def _returns_mode(program: Program, function: Function) -> bool:
    """Return whether a function returns a batch's mode, or a bool or enum that depends on it."""
    annotation = class_of_annotation(function.node.returns)
    if annotation is None or annotation == facts.MODE_CLASS or "forward_mode" not in function.source:
        return annotation == facts.MODE_CLASS
    answer = program.resolve(function.module, annotation)
    return annotation == "bool" or (isinstance(answer, Class) and program.is_enum(answer))
