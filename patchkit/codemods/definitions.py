"""Classes get attributes, methods and bases, modules functions, functions parameters; what is there stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import libcst as cst

from patchkit.codemods import edit, syntax
from patchkit.codemods.comment import annotate
from patchkit.codemods.pattern import render
from patchkit.codemods.scope import base_names, members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.codemods.scope import Scope


def _assigned(statement: cst.CSTNode) -> tuple[str, cst.BaseExpression | None] | None:
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        small = statement.body[0]
        if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name):
            return small.target.value, small.value
        if isinstance(small, cst.Assign) and len(small.targets) == 1:
            target = small.targets[0].target
            if isinstance(target, cst.Name):
                return target.value, small.value
    return None


@dataclass(frozen=True)
class ClassAttribute:
    """Give a class one attribute (``code`` is its assignment); another value for it there is a conflict."""

    code: str

    def examine(self, scope: Scope, note: str) -> edit.Finding:
        """Look for the attribute in the class body."""
        if not isinstance(scope.node, cst.ClassDef):
            return edit.absent(f"{scope.name} is not a class")
        (statement,) = render(self.code, {})
        wanted = cast("tuple[str, cst.BaseExpression]", _assigned(statement))
        for existing in scope.body:
            found = _assigned(existing)
            if found is not None and found[0] == wanted[0]:
                if found[1] is not None and syntax.same(found[1], wanted[1]):
                    return edit.present()
                there = syntax.code_of(existing).strip()
                return edit.ambiguous(f"{scope.name} already sets `{there}`, expected `{self.code.strip()}`")

        def rewrite() -> cst.Module:
            node = cast("cst.ClassDef", scope.node)
            body = scope.body
            at = 1 if node.get_docstring() is not None else 0
            blank = (cst.EmptyLine(indent=False),) if at else ()
            fresh = annotate(statement.with_changes(leading_lines=blank), note)
            rest = body[at:]
            if rest and not rest[0].leading_lines:  # type: ignore[attr-defined]
                rest = (rest[0].with_changes(leading_lines=(cst.EmptyLine(indent=False),)), *rest[1:])
            return scope.with_body((*body[:at], fresh, *rest))

        return edit.ready(rewrite)


@dataclass(frozen=True)
class Method:
    """Give a class the methods in ``code``; a method of that name defined there is left as it is."""

    code: str

    def examine(self, scope: Scope, note: str) -> edit.Finding:
        """Look for the methods in the class body."""
        if not isinstance(scope.node, cst.ClassDef):
            return edit.absent(f"{scope.name} is not a class")
        fresh = render(self.code, {})
        there = {node.name.value for _, node in members(scope)}
        missing = [
            node for node in fresh if isinstance(node, cst.FunctionDef) and node.name.value not in there
        ]
        if not missing:
            return edit.present()
        spaced = [
            annotate(node.with_changes(leading_lines=(cst.EmptyLine(indent=False),)), note)
            for node in missing
        ]
        return edit.ready(lambda: scope.with_body((*scope.body, *spaced)))


@dataclass(frozen=True)
class Base:
    """Put a base class in front of a class's bases."""

    base: str

    def examine(self, scope: Scope, note: str) -> edit.Finding:
        """Look among the bases."""
        node = scope.node
        if not isinstance(node, cst.ClassDef):
            return edit.absent(f"{scope.name} is not a class")
        if self.base.rsplit(".", 1)[-1] in base_names(node):
            return edit.present()
        bases = (cst.Arg(cst.parse_expression(self.base)), *node.bases)
        return edit.ready(lambda: scope.with_node(annotate(node.with_changes(bases=bases), note)))


@dataclass(frozen=True)
class Parameter:
    """Give a function one more parameter (``code``, with its default) after those it has."""

    code: str

    def examine(self, scope: Scope, note: str) -> edit.Finding:
        """Look for a parameter of that name."""
        node = scope.node
        if not isinstance(node, cst.FunctionDef):
            return edit.absent(f"{scope.name} is not a function")
        wanted = cast("cst.FunctionDef", cst.parse_statement(f"def f({self.code}): ...")).params.params[0]
        every = (*node.params.params, *node.params.kwonly_params)
        if any(parameter.name.value == wanted.name.value for parameter in every):
            return edit.present()
        keyword_only = bool(node.params.kwonly_params) or isinstance(
            node.params.star_arg, (cst.Param, cst.ParamStar)
        )
        field = "kwonly_params" if keyword_only else "params"
        before = list(getattr(node.params, field))
        fresh = wanted.with_changes(comma=cst.MaybeSentinel.DEFAULT)
        if before:
            # The newcomer ends the list as its last parameter did: same line break, same trailing comma.
            last = before[-1]
            between = before[-2].comma if len(before) > 1 else cst.MaybeSentinel.DEFAULT
            fresh = fresh.with_changes(comma=last.comma)
            before[-1] = last.with_changes(comma=between)
        params = node.params.with_changes(**{field: (*before, fresh)})
        return edit.ready(lambda: scope.with_node(annotate(node.with_changes(params=params), note)))


@dataclass(frozen=True)
class ModuleCode:
    """Give a module the definitions or assignments in ``code``, below its imports."""

    code: str

    def examine(self, scope: Scope, note: str) -> edit.Finding:
        """Look for the names that the code binds."""
        fresh = render(self.code, {})
        wanted = {name for name in map(_bound_name, fresh) if name is not None}
        bound = {name for name in map(_bound_name, scope.body) if name is not None}
        bound |= {node.name.value for _, node in members(scope)} | imported_names(scope.module)
        if wanted <= bound:
            return edit.present()

        def rewrite() -> cst.Module:
            at = after_imports(scope.module)
            body = scope.body
            blank = cst.EmptyLine(indent=False)
            gap = (blank, blank) if isinstance(fresh[0], (cst.FunctionDef, cst.ClassDef)) else (blank,)
            first = annotate(fresh[0].with_changes(leading_lines=gap), note)
            return scope.with_body((*body[:at], first, *fresh[1:], *body[at:]))

        return edit.ready(rewrite)


def _bound_name(statement: cst.CSTNode) -> str | None:
    if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
        return statement.name.value
    assigned = _assigned(statement)
    return assigned[0] if assigned is not None else None


def _imports(statement: cst.CSTNode) -> list[cst.Import | cst.ImportFrom]:
    if isinstance(statement, cst.SimpleStatementLine):
        return [small for small in statement.body if isinstance(small, (cst.Import, cst.ImportFrom))]
    return []


def imported_names(module: cst.Module) -> set[str]:
    """Return the names that a module's own top-level imports bind."""
    names: set[str] = set()
    for statement in module.body:
        for small in _imports(statement):
            if not isinstance(small.names, cst.ImportStar):
                names |= {bound_as(alias) for alias in small.names}
    return names


def bound_as(alias: cst.ImportAlias) -> str:
    """Return the name that an import alias binds."""
    return alias.evaluated_alias or alias.evaluated_name.split(".", 1)[0]


def after_imports(module: cst.Module) -> int:
    """Return the index behind the imports that open the module, or behind its docstring if there are none."""
    opening = 1 if module.get_docstring() is not None else 0
    for index, statement in enumerate(module.body):
        if isinstance(statement, (cst.ClassDef, cst.FunctionDef)):
            break
        if _imports(statement):
            opening = index + 1
    return opening


@dataclass(frozen=True)
class Import:
    """Import names (``code`` is one import statement) unless the module imports them already."""

    code: str

    def examine(self, scope: Scope, note: str) -> edit.Finding:
        """Look among the module's own imports."""
        del note  # An import explains itself.
        if not self.missing(scope.module):
            return edit.present()
        return edit.ready(lambda: self.add(scope.module))

    @property
    def names(self) -> set[str]:
        """The names that the statement binds."""
        return {bound_as(alias) for alias in cast("Sequence[cst.ImportAlias]", self._import.names)}

    @property
    def _statement(self) -> cst.BaseStatement:
        (statement,) = render(self.code, {})
        return statement

    @property
    def _import(self) -> cst.Import | cst.ImportFrom:
        (small,) = _imports(self._statement)
        return small

    def missing(self, module: cst.Module) -> bool:
        """Tell whether the module does not import all of the names."""
        return not self.names <= imported_names(module)

    def used_but_missing(self, module: cst.Module) -> bool:
        """Tell whether the module uses one of the names without importing it."""
        absent = self.names - imported_names(module)
        return bool(absent) and any(f"{name}." in module.code or f"{name}(" in module.code for name in absent)

    def add(self, module: cst.Module) -> cst.Module:
        """Return the module with the import, in place among its sorted imports."""
        wanted = self._import
        at = after_imports(module)
        if isinstance(wanted, cst.ImportFrom) and wanted.module is not None:
            at = _sorted_place(module, syntax.code_of(wanted.module), at)
        return module.with_changes(body=(*module.body[:at], self._statement, *module.body[at:]))


def _sorted_place(module: cst.Module, source: str, fallback: int) -> int:
    """Keep sorted imports sorted: behind the last one from the same package that does not sort later."""
    place = fallback
    for index, statement in enumerate(module.body[:fallback]):
        for small in _imports(statement):
            if isinstance(small, cst.ImportFrom) and small.module is not None:
                name = syntax.code_of(small.module)
                if name.split(".", 1)[0] == source.split(".", 1)[0] and name <= source:
                    place = index + 1
    return place
