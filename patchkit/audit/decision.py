"""The tree's own decision whether to keep the mirror, and the settings that it implies."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.tree import mirror
from patchkit.tree.index import is_runtime, last_name

if TYPE_CHECKING:
    from patchkit.tree.index import Function, Module, Program

_FEATURE = re.compile(r"^(?:enable|disable|is)_")


class Decision:
    """The functions that decide whether the mirror is kept, and what they imply."""

    def __init__(self, program: Program) -> None:
        self._program = program

    @cached_property
    def exists(self) -> bool:
        """Whether the tree has the decision; otherwise every backend keeps the mirror."""
        return any(
            mirror.decides(module.text) for module in self._program.core if not is_runtime(module.file)
        )

    @cached_property
    def functions(self) -> list[Function]:
        """The functions that decide whether the mirror is kept."""
        return [
            function
            for module in self._program.core
            for function in module.functions.values()
            if mirror.FLAG in function.name
        ]

    @cached_property
    def forced(self) -> tuple[frozenset[str], frozenset[str]]:
        """The settings that the decision implies to be false, and to be true, when the mirror is None."""
        false: set[str] = set()
        true: set[str] = set()
        for function in self.functions:
            for statement in function.node.body:
                if isinstance(statement, ast.If) and _returns_true(statement):
                    for test in _alternatives(statement.test):
                        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                            true.add(_tested(test.operand))
                        else:
                            false.add(_tested(test))
        return frozenset(false - {""}), frozenset(true - {""})

    def keeps_for(self, module: Module) -> bool:
        """Return whether a file belongs to a feature for which the decision keeps the mirror."""
        return module.stem.startswith(self._features)

    @cached_property
    def _features(self) -> tuple[str, ...]:
        """Prefixes of the names of such features' files: the feature's name or its initials."""
        features: list[str] = []
        for name in self.forced[0] | self.forced[1]:
            feature = _FEATURE.sub("", name)
            if feature != name:
                initials = "".join(word[0] for word in feature.split("_"))
                features += [feature, *([f"{initials}_"] if len(initials) > 1 else [])]
        return tuple(features)


def _returns_true(statement: ast.If) -> bool:
    last = statement.body[-1]
    return isinstance(last, ast.Return) and isinstance(last.value, ast.Constant) and last.value.value is True


def _alternatives(test: ast.expr) -> list[ast.expr]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return [inner for value in test.values for inner in _alternatives(value)]
    return [test] if not isinstance(test, (ast.BoolOp, ast.Compare)) else []


def _tested(node: ast.expr) -> str:
    """Return the name of the setting that a test reads, directly or with ``getattr``."""
    if isinstance(node, ast.Call) and last_name(node.func) == "getattr" and len(node.args) > 1:
        return last_name(node.args[1])
    return last_name(node)
