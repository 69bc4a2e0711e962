"""Scopes: a module, class, function or method, by its dotted name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from patchkit import memory
from patchkit.codemods.language import syntax

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchkit.codemods.language.syntax import Path

    Definition = cst.ClassDef | cst.FunctionDef

_DEFINITIONS = frozenset({cst.ClassDef, cst.FunctionDef})


@dataclass(frozen=True)
class Scope:
    """One scope in ``module``; ``name`` is dotted (``Class.method``) and empty for the module."""

    module: cst.Module
    path: Path
    name: str

    @property
    def node(self) -> cst.CSTNode:
        """The module, class or function itself."""
        return syntax.node_at(self.module, self.path)

    @property
    def block(self) -> Path:
        """Path of the scope's own block of statements."""
        return self.path if not self.path else (*self.path, ("body", None))

    @property
    def body(self) -> tuple[cst.BaseStatement, ...]:
        """The scope's own statements, including those on its header's line."""
        return tuple(syntax.statements_of(syntax.node_at(self.module, self.block)) or ())

    def with_node(self, node: cst.CSTNode) -> cst.Module:
        """Return the module with this scope's definition replaced."""
        return syntax.replaced(self.module, self.path, node)

    def with_body(self, statements: tuple[cst.BaseStatement, ...]) -> cst.Module:
        """Return the module with this scope's own statements replaced."""
        return syntax.with_body(self.module, self.block, statements)


def members(scope: Scope) -> Iterator[tuple[Path, Definition]]:
    """Return the classes and functions that a scope itself defines, those in branches after the others."""
    return _members(syntax.node_at(scope.module, scope.block), scope.block)


def _members(block: cst.CSTNode, path: Path) -> Iterator[tuple[Path, Definition]]:
    for where, inside in syntax.blocks_in(block, path, lambda statement: type(statement) not in _DEFINITIONS):
        for index, statement in enumerate(syntax.statements_of(inside) or ()):
            if type(statement) is cst.ClassDef or type(statement) is cst.FunctionDef:
                yield (*where, ("body", index)), statement


@memory.cached(4096)
def _by_name(block: cst.CSTNode) -> Mapping[str, tuple[Path, ...]]:
    """Return the paths in a block of the classes and functions that it defines."""
    paths: dict[str, tuple[Path, ...]] = {}
    for path, node in _members(block, ()):
        paths[node.name.value] = (*paths.get(node.name.value, ()), path)
    return paths


def resolve(module: cst.Module, dotted: str) -> list[Scope]:
    """Return every scope of ``module`` with this dotted name; a name may be defined several times."""
    scopes = [Scope(module, (), "")]
    for part in dotted.split(".") if dotted else ():
        scopes = [
            Scope(module, (*outer.block, *path), f"{outer.name}.{part}".lstrip("."))
            for outer in scopes
            for path in _by_name(syntax.node_at(module, outer.block)).get(part, ())
        ]
    return scopes


def base_names(definition: cst.ClassDef) -> tuple[str, ...]:
    """Return the last names of a class's bases: ``("Base",)`` for ``class A(module.Base[int])``."""
    values = [
        arg.value.value if isinstance(arg.value, cst.Subscript) else arg.value for arg in definition.bases
    ]
    return tuple(syntax.code_of(value).rsplit(".", 1)[-1] for value in values)
