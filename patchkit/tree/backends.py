"""Which classes of a tree are attention backends, and which of them can run without the CPU mirror."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.tree import mirror
from patchkit.tree.index import last_name

if TYPE_CHECKING:
    from patchkit.tree.index import Class, Program

_METADATA_METHODS = frozenset(
    {"init_forward_metadata", "init_forward_metadata_out_graph", "init_cuda_graph_state"}
)


class Backends:
    """The attention backends of one tree."""

    def __init__(self, program: Program) -> None:
        self._program = program

    @cached_property
    def all(self) -> list[Class]:
        """Every backend class in the files that matter, mixins and the abstract root left out."""
        return [
            cls
            for module in self._program.core
            for cls in module.classes.values()
            if cls.name != mirror.BACKEND_ROOT and self._is_backend(cls)
        ]

    def _is_backend(self, cls: Class) -> bool:
        if self.derived(cls):
            return True
        # A batch is told the decision under the flag's name.
        if mirror.FLAG in cls.fields and cls.name not in mirror.BATCH_CLASSES:
            return True
        named = "Backend" in cls.name and not cls.name.endswith("Mixin")
        return named and any(name in cls.methods for name in _METADATA_METHODS)

    def derived(self, cls: Class) -> bool:
        """Say whether a class is the abstract backend or inherits from it."""
        return mirror.BACKEND_ROOT in self._program.ancestors(cls)

    def opted_out(self, cls: Class) -> bool:
        """Say whether a backend's flag is, or on some configuration can be, False."""
        for known in self._program.mro(cls):
            assigned = [
                node.value
                for method in known.methods.values()
                if mirror.FLAG in method.source
                for node in ast.walk(method.node)
                if isinstance(node, ast.Assign) and any(_is_own_flag(target) for target in node.targets)
            ]
            if assigned:
                return any(
                    not (isinstance(value, ast.Constant) and value.value is True) for value in assigned
                )
            if mirror.FLAG in known.fields:
                value = known.fields[mirror.FLAG]
                return isinstance(value, ast.Constant) and value.value is False
        return False


def _is_own_flag(target: ast.expr) -> bool:
    return (
        isinstance(target, ast.Attribute) and target.attr == mirror.FLAG and last_name(target.value) == "self"
    )
