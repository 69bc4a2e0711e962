"""Select the functions to audit: those that name the mirror, and those that pass batches to them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from patchkit.audit import facts
from patchkit.tree import mirror
from patchkit.tree.index import Class, class_of_annotation, is_runtime

if TYPE_CHECKING:
    from patchkit.audit.callers import Callers
    from patchkit.audit.runners import Runners
    from patchkit.tree.index import Function, Program

_CALLER_LEVELS = 2


def relevant(program: Program, callers: Callers, runners: Runners) -> frozenset[Function]:
    """Return the functions of a tree to audit."""
    pattern = re.compile("|".join(sorted(mirror.TRACKED | {mirror.FLAG})))
    found = {
        function
        for module in program.core
        for function in module.all_functions()
        if pattern.search(function.source)
    }
    pending = list(found)
    for _ in range(_CALLER_LEVELS):
        pending = [
            caller
            for function in pending
            if not callers.is_generic(function.name)
            for caller, _ in callers.of(function)
            if caller not in found
        ]
        found.update(pending)
    for cls, holders in runners.holders.items():
        if any(method in found for method in cls.methods.values()):
            found.update(holders)
    # The runtime replaces code that named the mirror, whatever its own names are; a function that returns a batch's
    # mode replaces a test of it.
    found.update(
        function
        for module in program.core
        for function in module.all_functions()
        if is_runtime(module.file) or _returns_mode(program, function)
    )
    return frozenset(found)


def _returns_mode(program: Program, function: Function) -> bool:
    """Return whether a function returns a batch's mode, or a bool or enum that depends on it."""
    annotation = class_of_annotation(function.node.returns)
    if annotation is None or annotation == facts.MODE_CLASS or "forward_mode" not in function.source:
        return annotation == facts.MODE_CLASS
    answer = program.resolve(function.module, annotation)
    return annotation == "bool" or (isinstance(answer, Class) and program.is_enum(answer))
