"""Determine what can run without the mirror: opted-out backends, spec-v2 workers, features that keep it."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.audit import facts
from patchkit.audit.callers import Callers, relevant
from patchkit.audit.decision import Decision
from patchkit.audit.runners import Runners
from patchkit.audit.workers import Workers
from patchkit.tree.backends import Backends
from patchkit.tree.sglang import served

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.audit.runners import AuditedProgram
    from patchkit.findings.finding import Step
    from patchkit.tree.index import Class, Function

_KNOWN = served("disaggregation", "managers", "mem_cache", "model_executor", "observability", "speculative")
_HARDWARE = served("hardware_backend")
_SERVING = re.compile(r"(?:GraphRunner|ModelRunner|Worker|WorkerV2)$")


class TreeFacts:
    """Facts about a tree that do not depend on which backends are analysed."""

    def __init__(self, program: AuditedProgram) -> None:
        self.program = program
        self.callers = Callers(program)
        self.decision = Decision(program)
        self.runners = Runners(program)
        self.workers = Workers(program)
        self.kinds = Backends(program)
        """The backend classes, and which of them opted out."""

    @cached_property
    def backend_names(self) -> frozenset[str]:
        """The names of all backends."""
        return frozenset(cls.name for cls in self.kinds.all)

    @cached_property
    def relevant(self) -> frozenset[Function]:
        """The functions under analysis."""
        return relevant(self.program, self.callers, self.runners)


class Reach:
    """Reachability on the path without the mirror in one tree.

    ``assumed_opt_out`` is a backend class that counts as opted out, and no other does. With ``keeps`` only backends
    that keep the mirror count, and it is present.
    """

    def __init__(
        self,
        program: AuditedProgram,
        assumed_opt_out: Class | None = None,
        *,
        keeps: bool = False,
        tree: TreeFacts | None = None,
    ) -> None:
        self.program = program
        self.assumed_opt_out = assumed_opt_out
        self.keeps = keeps
        self.tree = tree or TreeFacts(program)
        self._excluded: dict[tuple[Function, str | None], bool] = {}

    def assuming_opt_out(self, cls: Class) -> Reach:
        """Return the reachability with ``cls``, and no other backend, opted out."""
        return Reach(self.program, cls, tree=self.tree)

    def keeping(self) -> Reach:
        """Return the reachability of the backends that keep the mirror."""
        return Reach(self.program, keeps=True, tree=self.tree)

    @property
    def has_flag(self) -> bool:
        """Whether the tree has the decision about the mirror; otherwise every backend keeps it."""
        return self.tree.decision.exists

    @property
    def backends(self) -> list[Class]:
        """Every attention backend class in the files under analysis."""
        return self.tree.kinds.all

    def opted_out(self, cls: Class) -> bool:
        """Return whether a backend's flag is False, or can be in some configuration."""
        if self.assumed_opt_out is not None:
            return cls is self.assumed_opt_out
        return self.tree.kinds.opted_out(cls) or self.tree.kinds.has_flag_property(cls)

    @cached_property
    def active_backends(self) -> list[Class]:
        """Backends that can run without the mirror."""
        return [cls for cls in self.backends if self.opted_out(cls) != self.keeps]

    @cached_property
    def _active_names(self) -> frozenset[str]:
        return frozenset(cls.name for cls in self.active_backends)

    def made_by(self, cls: Class | None) -> list[Class]:
        """Return the backends constructed by a class's constructor that can run without the mirror."""
        for ancestor in self.program.mro(cls):
            init = ancestor.methods.get("__init__")
            names = {name for _, name in init.called_names} if init is not None else set()
            if names & self.tree.backend_names:
                return [backend for backend in self.active_backends if backend.name in names]
        return self.active_backends

    def excluded(self, function: Function, self_class: str | None) -> bool:
        """Return whether a function cannot run without the mirror."""
        key = function, self_class
        if key not in self._excluded:
            self._excluded[key] = self._cannot_run(function, self_class)
        return self._excluded[key]

    def _cannot_run(self, function: Function, self_class: str | None) -> bool:
        if self.tree.decision.keeps_for(function.module):
            return True
        owner = function.owner
        if owner is None:
            return False
        if owner.name == facts.MODE_CLASS:
            return True
        names = {self_class, owner.name} - {None}
        if names & self.tree.backend_names:
            return not names & self._active_names
        return self.tree.workers.is_v1(function)

    def known(self, function: Function, self_class: str | None) -> bool:
        """Return whether a function certainly runs without the mirror."""
        names = {self_class, function.owner.name if function.owner else None}
        if names & self._active_names:
            return True
        if function.module.file.startswith(_HARDWARE) or self.tree.callers.handed_around(function):
            return False
        return function.module.file.startswith(_KNOWN)

    def serves(self, function: Function) -> bool:
        """Return whether a method belongs to a runner or worker, which a server calls in every step."""
        owner = function.owner
        return owner is not None and bool(_SERVING.search(owner.name)) and self.known(function, None)

    @cached_property
    def in_order(self) -> list[Function]:
        """The functions under analysis in source order, so that audits of a tree are reproducible."""
        return [function for function in self.program.functions() if function in self.tree.relevant]

    def handed_by_a_backend(self, function: Function, path: Sequence[Step]) -> bool:
        """Return whether a backend passes a value, along ``path``, to a function outside the backends."""
        files = {ancestor.module.file for cls in self.backends for ancestor in self.program.mro(cls)}
        own = function.owner is not None and function.owner.name in self.tree.backend_names
        return path[0].file in files and function.module.file not in files and not own
