"""Resolve names at a place with libcst's scopes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from libcst.metadata import (
    BuiltinAssignment,
    ComprehensionScope,
    ExpressionContext,
    ExpressionContextProvider,
    ImportAssignment,
    MetadataWrapper,
    ScopeProvider,
)

from patchkit import memory
from patchkit.codemods.language import syntax
from patchkit.codemods.language.definitions import bound_names
from patchkit.tree import piecewise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from libcst.metadata import Scope as Binder

    from patchkit.codemods.language.scope import Scope

_BINDING = frozenset({"asname", "name", "names", "rest", "target", "targets"})


class Names:
    """The names of one module or of a part of one."""

    def __init__(self, module: cst.Module) -> None:
        # A rewritten module may contain one node twice, of which metadata cover only the last.
        wrapper = MetadataWrapper(module)
        self._module = wrapper.module
        self._scopes = wrapper.resolve(ScopeProvider)
        self._contexts = wrapper.resolve(ExpressionContextProvider)
        for _, node in syntax.descend(self._module):
            self._note(node)

    def _note(self, node: cst.CSTNode) -> None:
        """Record bindings that libcst does not treat as assignments."""
        if isinstance(node, cst.NamedExpr):
            self._note_walrus(node)
        elif isinstance(node, cst.MatchAs | cst.MatchStar) and node.name is not None:
            self._binder(node).record_assignment(node.name.value, node)
        elif isinstance(node, cst.MatchMapping) and node.rest is not None:
            self._binder(node).record_assignment(node.rest.value, node)
        elif isinstance(node, cst.Name) and self._contexts.get(node) is ExpressionContext.DEL:
            self._binder(node).record_assignment(node.value, node)

    def _note_walrus(self, node: cst.NamedExpr) -> None:
        binder = self._binder(node)
        if isinstance(binder, ComprehensionScope):
            while isinstance(binder, ComprehensionScope):
                binder = binder.parent
            binder.record_assignment(cst.ensure_type(node.target, cst.Name).value, node.target)

    def bound_in(self, scope: Scope) -> frozenset[str]:
        """Return the names that a scope itself binds in any way."""
        binder = self._inside(scope)
        return frozenset(assignment.name for assignment in binder.assignments)

    def is_imported(self, scope: Scope, name: str) -> bool:
        """Return whether only imports bind a name that is read in a scope, or nothing does."""
        bindings = self._inside(scope)[name]
        return all(isinstance(binding, BuiltinAssignment | ImportAssignment) for binding in bindings)

    def _binder(self, node: cst.CSTNode) -> Binder:
        binder = self._scopes[node]
        assert binder is not None
        return binder

    def _inside(self, scope: Scope) -> Binder:
        """Return the libcst scope of the names that a module, class or function itself binds."""
        if not scope.path:
            return self._binder(self._module)
        block = cst.ensure_type(syntax.node_at(self._module, scope.block), cst.BaseSuite)  # type: ignore[type-abstract]
        return self._binder(block.body[0])


@memory.cached(4)
def names_of(module: cst.Module) -> Names:
    """Return the resolved names of a module; cached while the module is in use."""
    return Names(module)


@memory.cached(1 << 14)
def may_bind(node: cst.CSTNode) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names that a node may bind, and those that imports in it bind.

    A name in neither set is certainly not bound there; this needs no scope analysis.
    """
    given: set[str] = set()
    imported: set[str] = set()
    pending = [(child, name in _BINDING) for name, child in syntax.parts(node)]
    while pending:
        candidate, is_target = pending.pop()
        if type(candidate) is cst.Name:
            given |= {candidate.value} if is_target else set()
        elif type(candidate) is cst.ImportAlias:
            imported.add(bound_as(candidate))
        elif type(candidate) in syntax.STATEMENTS:  # Most statements stay the same between edits.
            given, imported = (
                one | other for one, other in zip((given, imported), may_bind(candidate), strict=True)
            )
        else:
            pending += [(child, is_target or name in _BINDING) for name, child in syntax.parts(candidate)]
    return frozenset(given), frozenset(imported)


def bound_as(alias: cst.ImportAlias) -> str:
    """Return the name that an import alias binds."""
    return alias.evaluated_alias or alias.evaluated_name.split(".", 1)[0]


@memory.cached(1024)
def imported_names(module: cst.Module) -> frozenset[str]:
    """Return the names that a module's own top-level imports bind."""
    names: set[str] = set()
    for statement in module.body:
        for small in imports_in(statement):
            if not isinstance(small.names, cst.ImportStar):
                names |= {bound_as(alias) for alias in small.names}
    return frozenset(names)


def imports_in(statement: cst.CSTNode) -> list[cst.Import | cst.ImportFrom]:
    """Return the imports in a simple statement."""
    # `isinstance` is slow for node classes.
    if type(statement) is cst.SimpleStatementLine:
        return [
            small for small in statement.body if type(small) is cst.Import or type(small) is cst.ImportFrom
        ]
    return []


def bound_by(scope: Scope, names: Iterable[str]) -> frozenset[str]:
    """Return those of the names that a module, class or function itself binds in any way."""
    wanted = _bindable(scope.node, names, imports=True)
    return names_of(scope.module).bound_in(scope).intersection(wanted) if wanted else frozenset()


def bound_otherwise(scope: Scope, names: Iterable[str]) -> list[str]:
    """Return the names that a scope binds, except by definitions, assignments and, in a module, imports."""
    bound_once = bound_names(scope) | (set() if scope.path else imported_names(scope.module))
    return sorted(bound_by(scope, set(names) - bound_once))


def hidden(scope: Scope, names: Iterable[str]) -> list[str]:
    """Return those of the names that mean something other than an import in a scope."""
    wanted = _bindable(scope.module, names, imports=False)
    return [name for name in wanted if not names_of(scope.module).is_imported(scope, name)]


def _bindable(node: cst.CSTNode, names: Iterable[str], *, imports: bool) -> list[str]:
    """Return those of the names that a node may bind; with ``imports``, also by imports."""
    wanted = list(names)
    nodes = _mentioning(node, wanted) if type(node) is cst.Module else [node]
    bound = [may_bind(part) for part in nodes]
    return [n for n in wanted if any(n in given or (imports and n in imported) for given, imported in bound)]


def _mentioning(module: cst.Module, names: Sequence[str]) -> Iterator[cst.CSTNode]:
    """Yield the statements of a module that may bind one of the names; of a class, its header and such members."""
    for statement in module.body:
        if type(statement) is cst.ClassDef and type(statement.body) is cst.IndentedBlock:
            yield statement.with_changes(body=cst.IndentedBlock(()))
            yield from (m for m in statement.body.body if piecewise.mentions(m, names, is_member=True))
        elif piecewise.mentions(statement, names, is_member=False):
            yield statement
