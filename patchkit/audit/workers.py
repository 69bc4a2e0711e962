"""Classify speculative workers as spec v1 or v2, and find the files that only spec v1 uses."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.audit import facts
from patchkit.tree.sglang import served

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.tree.index import Class, Function, Program

_SPECULATIVE = served("speculative")


class Workers:
    """The speculative workers of one tree."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def is_v1(self, function: Function) -> bool:
        """Return whether a method belongs to a spec-v1 worker, or to a file that only those import."""
        owner = function.owner
        return owner is not None and (self._v1_worker(owner) or function.module.file in self._v1_files)

    def _v1_worker(self, cls: Class) -> bool:
        if not cls.module.file.startswith(_SPECULATIVE):
            return False
        if not self._v2_roots:
            return False
        is_worker = self._program.method(cls, "forward_batch_generation") is not None
        return is_worker and not self._program.ancestors(cls) & self._v2_roots

    @cached_property
    def _v1_files(self) -> frozenset[str]:
        """Files of the speculative folder that only files of spec-v1 workers import."""
        modules = [module for module in self._program.core if module.file.startswith(_SPECULATIVE)]
        old = {
            module.file
            for module in modules
            if any(map(self._v1_worker, module.classes.values()))
            and not any(self._program.ancestors(cls) & self._v2_roots for cls in module.classes.values())
        }
        folder = b"speculative."
        importer = re.compile(rb"\b%s(\w+)\b" % re.escape(folder))
        users: dict[bytes, set[str]] = {}
        for file, text in self._program.sources.items():
            for stem in importer.findall(text) if folder in text else ():
                users.setdefault(stem, set()).add(file)
        v1_files = set()
        for module in modules:
            importers = users.get(module.stem.encode(), set()) - {module.file}
            if importers and importers <= old:
                v1_files.add(module.file)
        return frozenset(v1_files)

    @cached_property
    def _v2_roots(self) -> frozenset[str]:
        others = {
            name
            for module in self._program.core
            for cls in module.classes.values()
            for name in self._program.ancestors(cls)
        }
        return frozenset(others & set(facts.SPEC_WORKER_ROOTS))

    def steps_of(self, function: Function, steps: Sequence[str]) -> Sequence[str]:
        """Return the ``steps`` in which a function runs; a scheduler passes only decodes to a spec-v2 worker."""
        is_step = function.name == facts.WORKER_STEP
        if not (is_step and self._program.ancestors(function.owner) & self._v2_roots):
            return steps
        return [step for step in steps if step == facts.DECODE]
