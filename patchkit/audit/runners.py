"""Resolve calls on graph runners, whose attributes are named after their classes."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.tree.index import Program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.tree.index import Class, Function

_RUNNER = "graphrunner"
_RUNNER_CALL = re.compile(rb"\.(\w+_graph_runner)\.\w+\(")


class AuditedProgram(Program):
    """A tree under audit: ``core`` also has the files that call a graph runner by its attribute's name."""

    def __init__(self, sources: dict[str, bytes], below: Program | None = None) -> None:
        super().__init__(sources, below=below)
        core_files = {module.file for module in self.core}
        self.holders = [
            module
            for file, text in sorted(sources.items())
            if file not in core_files
            and any(self.held_by(attribute.decode()) for attribute in set(_RUNNER_CALL.findall(text)))
            and (module := self.module(file)) is not None
        ]
        """Files in ``core`` only because they call a graph runner."""
        self._name_classes(self.holders)
        self.core += self.holders

    @cached_property
    def _runners(self) -> list[tuple[str, Class]]:
        return [
            (name.lower(), cls)
            for name, classes in self._classes.items()
            if name.lower().endswith(_RUNNER)
            for cls in classes
        ]

    def held_by(self, attribute: str) -> Class | None:
        """Return the graph runner after whose class alone an attribute is named, or None."""
        wanted = attribute.replace("_", "")
        named = [(name, cls) for name, cls in self._runners if name.endswith(wanted)]
        return named[0][1] if len(named) == 1 and named[0][0] == wanted else None

    def is_named_after_a_class(self, attribute: str) -> bool:
        """Return whether an attribute has the name of a class in the files under analysis."""
        return attribute.replace("_", "") in self._class_names

    @cached_property
    def _class_names(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self._classes)

    def runner_made_for(self, owner: Class | None, attribute: str) -> Class | None:
        """Return the graph runner that a class constructs and stores in an attribute, or None."""
        for ancestor in self.mro(owner):
            if attribute in ancestor.attribute_classes:
                classes = self.classes_named(ancestor.attribute_classes[attribute])
                return classes[0] if len(classes) == 1 and classes[0].name.lower().endswith(_RUNNER) else None
        return None


class Runners:
    """The functions that call graph runners' methods, and their receivers."""

    def __init__(self, program: AuditedProgram) -> None:
        self._program = program

    @cached_property
    def holders(self) -> dict[Class, list[Function]]:
        """The functions that call a method of a graph runner on an attribute named after it."""
        holders: dict[Class, list[Function]] = {}
        for function in self._program.functions():
            for attribute, name in function.received_names:
                cls = self._program.held_by(attribute)
                if cls is not None and name in cls.methods:
                    holders.setdefault(cls, []).append(function)
        return holders

    def is_called_by_attribute(self, method: Function) -> bool:
        """Return whether a method belongs to a graph runner that is called by its attribute's name."""
        return method.owner in self.holders

    def calls_its_own(self, caller: Function, method: Function) -> bool:
        """Return whether a function calls a runner's method only on runners that its own class constructs."""
        runners = self._called(caller, method.name).values()
        return bool(runners) and all(
            runner is not None and self._program.method(runner, method.name) is method for runner in runners
        )

    def may_call(self, caller: Function, method: Function, making: Sequence[Function]) -> bool:
        """Return whether a function can call a graph runner's method and is not known to call another's."""
        constructed = {attribute for maker in making for attribute in self._called(maker, method.name)}
        for attribute, runner in self._called(caller, method.name).items():
            if runner is not None and self._program.method(runner, method.name) is not method:
                continue
            keeps = any(self._program.methods_naming(caller.owner, f"self.{attribute} = "))
            assert method.owner is not None
            if runner is None and (
                self._program.is_named_after_a_class(attribute)
                or (keeps and method.owner.name.encode() not in caller.module.text)
            ):
                continue
            if (
                runner is not None
                or attribute.endswith("runner")
                or any(re.search(rf"\b{name}\b", caller.source) for name in constructed)
            ):
                return True
        return False

    def _called(self, caller: Function, name: str) -> dict[str, Class | None]:
        """Return the receivers on which a function calls that method, each with its class if known."""
        return {
            attribute: self._program.held_by(attribute)
            or self._program.runner_made_for(caller.owner, attribute)
            for attribute, called in caller.received_names
            if called == name and not attribute[:1].isupper()
        }
