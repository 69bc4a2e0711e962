"""Entry points of an audit: functions that run without the mirror and have no caller under analysis."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.audit import facts
from patchkit.tree.index import last_name
from patchkit.tree.nodes import walk
from patchkit.tree.sglang import served

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from patchkit.audit.reach import Reach
    from patchkit.tree.index import Function

    Entry = tuple[Function, str | None]
    """A function and the class of ``self``."""

_MODELS = served("models")


class Entries:
    """The functions from which the audit of a tree starts."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._program = reach.program
        self._callers = reach.tree.callers
        self._runners = reach.tree.runners
        self._relevant = reach.tree.relevant
        self._excluded = reach.excluded

    def of_backends(self) -> list[Entry]:
        """Return the methods called from outside on backends without the mirror, with the class of ``self``."""
        entries: list[Entry] = []
        for cls in self._reach.active_backends:
            for name in {name for ancestor in self._program.mro(cls) for name in ancestor.methods}:
                method = self._program.method(cls, name)
                if method is None or name.startswith("_") or facts.CAPTURE.search(name):
                    continue
                if method not in self._relevant:
                    continue
                callers = self._callers.of(method)
                if not callers or not all(sure for _, sure in callers):
                    entries.append((method, cls.name))
        return _ordered(entries)

    def points(self) -> list[Entry]:
        """Return the functions to analyse without a known caller, with the class of ``self``."""
        entries = [
            entry
            for entry in self.of_backends()
            if not self._for_a_runner(entry[0]) and entry not in self.for_models
        ]
        for function in self._startable:
            callers = [caller for caller, _ in self._callers.of(function)]
            running = [caller for caller in callers if not self._excluded(caller, None)]
            if function in self.followed:
                continue
            unfollowed = self._callers.is_generic(function.name) or not any(
                caller in self._relevant for caller in running
            )
            if not callers or function in self._reach.tree.decision.functions or (running and unfollowed):
                entries.append((function, None))
        return _ordered(entries)

    @cached_property
    def for_models(self) -> dict[Entry, list[Function]]:
        """Backends' methods that only models call, with these callers; their calls are followed."""
        for_models = {}
        for method, cls in self.of_backends():
            # A backend that wraps another passes its arguments through.
            callers = [caller for caller, _ in self._callers.of(method) if not self._forwards(caller, method)]
            is_for_models = bool(callers) and all(
                self._calls_only_backends(caller, method.name) for caller in callers
            )
            if is_for_models and not self._named_elsewhere(method):
                for_models[method, cls] = callers
        return for_models

    def _forwards(self, caller: Function, method: Function) -> bool:
        return (
            caller.name == method.name
            and caller.owner is not None
            and caller.owner.name in self._reach.tree.backend_names
        )

    def _calls_only_backends(self, caller: Function, name: str) -> bool:
        """Return whether a model's function calls a method of that name only on its backend."""
        calls = [
            node.func
            for node in walk(caller.node)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name
        ]
        return (
            caller.module.file.startswith(_MODELS)
            and caller in self._relevant
            and not self._excluded(caller, None)
            and all(facts.BACKEND_NAME.search(last_name(function.value)) for function in calls)
        )

    def _named_elsewhere(self, method: Function) -> bool:
        """Return whether code outside the analysis names a method, in a file or as a string for lookup."""
        name = method.name.encode()
        parsed = {module.file for module in self._program.core}
        if any(name in text for file, text in self._program.sources.items() if file not in parsed):
            return True
        for module in self._program.core:
            if name in module.text:
                checks = len(re.findall(rb'hasattr\([^"]*"%s"\)' % name, module.text))
                forwarded = sum(
                    function.source.encode().count(b'"%s"' % name)
                    for function in module.all_functions()
                    if self._forwards(function, method)
                )
                if module.text.count(b'"%s"' % name) > checks + forwarded:
                    return True
        return False

    def _for_a_runner(self, method: Function) -> bool:
        """Return whether only graph runners, whose calls are followed, call a backend's method."""
        callers = [caller for caller, _ in self._callers.of(method)]
        owners = [caller.owner for caller in callers if caller.owner is not None]
        return (
            len(owners) == len(callers)
            and any(owner in self._runners.holders for owner in owners)
            and all(
                owner in self._runners.holders or owner.name in self._reach.tree.backend_names
                for owner in owners
            )
            and all(caller in self._relevant for caller in callers)
            and all(
                facts.BACKEND_NAME.search(attribute) or not attribute.isidentifier()
                for caller in callers
                for attribute, name in caller.received_names
                if name == method.name
            )
        )

    def leftovers(self, entered: Set[Function]) -> list[Entry]:
        """Return the functions not entered so far that running code may call, by their names."""
        return _ordered(
            (function, None)
            for function in self._startable
            if function not in entered
            and function not in self.followed
            and any(
                not sure and not self._excluded(caller, None) for caller, sure in self._callers.of(function)
            )
        )

    @cached_property
    def _startable(self) -> list[Function]:
        return [
            function
            for function in self._reach.in_order
            if not self._excluded(function, None)
            and not facts.CAPTURE.search(function.name)
            and not (function.owner is not None and function.owner.name in self._reach.tree.backend_names)
        ]

    @cached_property
    def followed(self) -> frozenset[Function]:
        """The methods of graph runners that run only where their known callers call them."""
        return frozenset(filter(self._is_followed, self._startable))

    def _is_followed(self, method: Function) -> bool:
        callers = [caller for caller, _ in self._callers.of(method)]
        running = [
            caller for caller in callers if caller in self._relevant and not self._excluded(caller, None)
        ]
        if self._runners.is_called_by_attribute(method):
            return bool(running)
        making = [caller for caller in running if self._runners.calls_its_own(caller, method)]
        return bool(making) and not any(
            self._runners.may_call(caller, method, making) for caller in callers if caller not in making
        )


def _ordered(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (entry[0].module.file, entry[0].node.lineno, entry[1] or ""))
