"""Add the imports that new code needs, once, in sorted order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from patchkit import memory
from patchkit.codemods.language import syntax
from patchkit.codemods.language.names import (
    bound_as,
    hidden,
    imported_names,
    imports_in,
    may_bind,
)
from patchkit.codemods.language.placeholders import PatternError
from patchkit.codemods.language.template import render

if TYPE_CHECKING:
    from patchkit.codemods.language.scope import Scope


def after_imports(module: cst.Module) -> int:
    """Return the index behind the imports at the top of the module, or behind its docstring if there are none."""
    opening = 1 if module.get_docstring() is not None else 0
    for index, statement in enumerate(module.body):
        if isinstance(statement, (cst.ClassDef, cst.FunctionDef)):
            break
        if imports_in(statement):
            opening = index + 1
    return opening


@dataclass(frozen=True)
class Import:
    """Import names, unless the module imports them already; ``code`` is one import statement."""

    code: str

    def __post_init__(self) -> None:
        _import_in(self.code)

    @property
    def names(self) -> set[str]:
        """The names that the statement binds."""
        return set(_names_in(self.code))

    @property
    def taken(self) -> set[str]:
        """The names under which the source module defines them."""
        return {alias.evaluated_name for alias in _aliases_of(_import_in(self.code))}

    @property
    def source(self) -> str:
        """The dotted name of the module that the names are imported from; empty for a plain import."""
        wanted = _import_in(self.code)
        if isinstance(wanted, cst.Import) or wanted.module is None or wanted.relative:
            return ""
        return syntax.code_of(wanted.module)

    def moved_to(self, source: str) -> Import:
        """Return the import of the same names from another module."""
        wanted = cst.ensure_type(_import_in(self.code), cst.ImportFrom)
        moved = wanted.with_changes(module=cst.parse_expression(source))
        return Import(syntax.code_of(moved))

    def missing(self, module: cst.Module) -> bool:
        """Return whether the module lacks one of the names."""
        return not self.names <= imported_names(module)

    def hidden_in(self, scope: Scope) -> list[str]:
        """Return the names that the scope would not read from the import, since other bindings hide them."""
        return hidden(scope, sorted(self.names))

    def used_but_missing(self, scope: Scope) -> bool:
        """Return whether the scope uses one of the names and neither it nor the module binds the name."""
        absent = self.names - imported_names(scope.module)
        if not absent & syntax.names_in(scope.node):
            return False
        # The name of an attribute or of a keyword argument is not a use of a variable.
        nodes = [
            node
            for path, node in syntax.descend(scope.node, scope.path)
            if not path or path[-1][0] not in {"attr", "keyword"}
        ]
        absent -= may_bind(scope.node)[1]
        absent -= set(hidden(scope, absent))
        return any(isinstance(node, cst.Name) and node.value in absent for node in nodes)

    def is_used_in(self, scope: Scope) -> bool:
        """Return whether the scope uses one of the names, also in a string such as an annotation."""
        return not self.names.isdisjoint(syntax.words_in(scope.node))

    @memory.cached(256)
    def add(self, module: cst.Module) -> cst.Module:
        """Return the module with the import, in sorted order among its imports."""
        index = after_imports(module)
        wanted = _import_in(self.code)
        if isinstance(wanted, cst.ImportFrom) and wanted.module is not None:
            index = _sorted_place(module, syntax.code_of(wanted.module), index)
        return module.with_changes(body=(*module.body[:index], *render(self.code, {}), *module.body[index:]))


@lru_cache(maxsize=1024)
def _import_in(code: str) -> cst.Import | cst.ImportFrom:
    """Return the import in a statement. Raise PatternError for any other code."""
    statements = render(code, {})
    imports = imports_in(statements[0]) if len(statements) == 1 else []
    if len(imports) != 1 or isinstance(imports[0].names, cst.ImportStar):
        raise PatternError(f"not one import of names: {code.strip()!r}")
    return imports[0]


@lru_cache(maxsize=1024)
def _names_in(code: str) -> frozenset[str]:
    return frozenset(map(bound_as, _aliases_of(_import_in(code))))


def _aliases_of(small: cst.Import | cst.ImportFrom) -> list[cst.ImportAlias]:
    return [cst.ensure_type(alias, cst.ImportAlias) for alias in small.names]  # type: ignore[union-attr]


def _sorted_place(module: cst.Module, source: str, fallback: int) -> int:
    """Return the index behind the last import from the same package that sorts before ``source``."""
    place = fallback
    for index, statement in enumerate(module.body[:fallback]):
        for small in imports_in(statement):
            if isinstance(small, cst.ImportFrom) and small.module is not None:
                name = syntax.code_of(small.module)
                if name.split(".", 1)[0] == source.split(".", 1)[0] and name <= source:
                    place = index + 1
    return place
