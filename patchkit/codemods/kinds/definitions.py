"""Classes get attributes, methods and bases, modules functions, functions parameters; what is there stays."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.language import syntax
from patchkit.codemods.language.comment import annotate
from patchkit.codemods.language.layout import append
from patchkit.codemods.language.pattern import PatternError, render, render_expression
from patchkit.codemods.language.scope import base_names, members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.codemods.language.scope import Scope


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


def _bound_name(statement: cst.CSTNode) -> str | None:
    if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
        return statement.name.value
    assigned = _assigned(statement)
    return assigned[0] if assigned is not None else None


def _bound_names(scope: Scope) -> set[str]:
    """Return the names that a scope's own statements bind to a definition or a value."""
    assigned = {name for name in map(_bound_name, scope.body) if name is not None}
    return assigned | {node.name.value for _, node in members(scope)}


@dataclass(frozen=True)
class ClassAttribute:
    """Give a class one attribute (``code`` is its assignment); another value for it there is a conflict."""

    code: str

    def __post_init__(self) -> None:
        statements = render(self.code, {})
        assigned = _assigned(statements[0]) if len(statements) == 1 else None
        if assigned is None or assigned[1] is None:
            raise PatternError(f"not one assignment to a name: {self.code.strip()!r}")

    def examine(self, scope: Scope, note: str) -> examination.Examination:
        """Look for the attribute in the class body."""
        if not isinstance(scope.node, cst.ClassDef):
            return examination.absent(f"{scope.name or 'the module'} is not a class")
        (statement,) = render(self.code, {})
        wanted = cast("tuple[str, cst.BaseExpression]", _assigned(statement))
        if any(node.name.value == wanted[0] for _, node in members(scope)):
            return examination.ambiguous(f"{scope.name} defines {wanted[0]}, expected `{self.code.strip()}`")
        for existing in scope.body:
            found = _assigned(existing)
            if found is not None and found[0] == wanted[0]:
                if found[1] is not None and syntax.same(found[1], wanted[1]):
                    return examination.present()
                there = syntax.code_of(existing).strip()
                return examination.ambiguous(
                    f"{scope.name} already sets `{there}`, expected `{self.code.strip()}`"
                )

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

        return examination.ready(rewrite)


@dataclass(frozen=True)
class Method:
    """Give a class the methods in ``code``; what has the name of one there is left as it is."""

    code: str

    def __post_init__(self) -> None:
        if (
            not all(isinstance(node, cst.FunctionDef) for node in render(self.code, {}))
            or not self.code.strip()
        ):
            raise PatternError(f"not only methods: {self.code.strip()!r}")

    def examine(self, scope: Scope, note: str) -> examination.Examination:
        """Look for the methods in the class body."""
        if not isinstance(scope.node, cst.ClassDef):
            return examination.absent(f"{scope.name or 'the module'} is not a class")
        there = _bound_names(scope)
        missing = [node for node in render(self.code, {}) if _bound_name(node) not in there]
        if not missing:
            return examination.present()
        spaced = [
            annotate(node.with_changes(leading_lines=(cst.EmptyLine(indent=False),)), note)
            for node in missing
        ]
        return examination.ready(lambda: scope.with_body((*scope.body, *spaced)))


@dataclass(frozen=True)
class Base:
    """Put a base class in front of a class's bases."""

    base: str

    def __post_init__(self) -> None:
        render_expression(self.base, {})

    def examine(self, scope: Scope, note: str) -> examination.Examination:
        """Look among the bases."""
        node = scope.node
        if not isinstance(node, cst.ClassDef):
            return examination.absent(f"{scope.name or 'the module'} is not a class")
        if self.base.rsplit(".", 1)[-1] in base_names(node):
            return examination.present()
        bases = (cst.Arg(render_expression(self.base, {})), *node.bases)
        return examination.ready(lambda: scope.with_node(annotate(node.with_changes(bases=bases), note)))


@dataclass(frozen=True)
class Parameter:
    """Give a function one more parameter (``code``, with its default) after those it has."""

    code: str

    def __post_init__(self) -> None:
        if len(self._rendered.params) != 1 or self._rendered.params[0].default is None:
            raise PatternError(f"not one parameter with a default: {self.code.strip()!r}")

    @property
    def _rendered(self) -> cst.Parameters:
        (function,) = render(f"def f({self.code}): ...", {})
        return cast("cst.FunctionDef", function).params

    def examine(self, scope: Scope, note: str) -> examination.Examination:
        """Look for a parameter of that name."""
        node = scope.node
        if not isinstance(node, cst.FunctionDef):
            return examination.absent(f"{scope.name or 'the module'} is not a function")
        wanted = self._rendered.params[0]
        there = node.params
        every = (*there.posonly_params, *there.params, *there.kwonly_params)
        if any(parameter.name.value == wanted.name.value for parameter in every):
            return examination.present()
        keyword_only = bool(there.kwonly_params) or isinstance(there.star_arg, (cst.Param, cst.ParamStar))
        field = "kwonly_params" if keyword_only else "params"
        before = getattr(there, field)
        if before:
            bare = before[-1].with_changes(whitespace_after_param=cst.SimpleWhitespace(""))
            grown, closing = append(
                (*before[:-1], bare),
                wanted,
                node.whitespace_before_params,
                before[-1].whitespace_after_param,
            )
            after = (*grown[:-1], grown[-1].with_changes(whitespace_after_param=closing))
        else:
            after = (wanted,)
        params = there.with_changes(**{field: after})
        return examination.ready(lambda: scope.with_node(annotate(node.with_changes(params=params), note)))


@dataclass(frozen=True)
class ModuleCode:
    """Give a module the definitions and assignments in ``code``, below its imports; what it has stays."""

    code: str

    def __post_init__(self) -> None:
        if not all(map(_bound_name, render(self.code, {}))) or not self.code.strip():
            raise PatternError(f"not only definitions and assignments: {self.code.strip()!r}")

    def examine(self, scope: Scope, note: str) -> examination.Examination:
        """Look for the names that the code binds."""
        there = _bound_names(scope) | imported_names(scope.module)
        missing = [statement for statement in render(self.code, {}) if _bound_name(statement) not in there]
        if not missing:
            return examination.present()

        def rewrite() -> cst.Module:
            at = after_imports(scope.module)
            above, below = scope.body[:at], scope.body[at:]
            first = annotate(_apart(missing[0].with_changes(leading_lines=(_BLANK,)), missing[0]), note)
            spaced = [_apart(each, last, each) for last, each in pairwise([*missing, *below[:1]])]
            return scope.with_body((*above, first, *spaced, *below[1:]))

        return examination.ready(rewrite)


_BLANK = cst.EmptyLine(indent=False)


def _apart(statement: cst.BaseStatement, *beside: cst.BaseStatement) -> cst.BaseStatement:
    """Return a module's statement with two blank lines above it if one of those beside the gap is a definition."""
    lead = statement.leading_lines  # type: ignore[attr-defined]
    blank = next((index for index, line in enumerate(lead) if line.comment is not None), len(lead))
    is_wide = any(isinstance(each, (cst.FunctionDef, cst.ClassDef)) for each in beside)
    return statement.with_changes(leading_lines=[*(_BLANK,) * (2 - blank if is_wide else 0), *lead])


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

    def __post_init__(self) -> None:
        statements = render(self.code, {})
        found = _imports(statements[0]) if len(statements) == 1 else []
        if len(found) != 1 or isinstance(found[0].names, cst.ImportStar):
            raise PatternError(f"not one import of names: {self.code.strip()!r}")

    def examine(self, scope: Scope, note: str) -> examination.Examination:
        """Look among the module's own imports."""
        del note  # An import explains itself.
        if not self.missing(scope.module):
            return examination.present()
        return examination.ready(lambda: self.add(scope.module))

    @property
    def names(self) -> set[str]:
        """The names that the statement binds."""
        return {bound_as(alias) for alias in cast("Sequence[cst.ImportAlias]", self._import.names)}

    @property
    def taken(self) -> set[str]:
        """The names that the module it imports from has them under."""
        aliases = cast("Sequence[cst.ImportAlias]", self._import.names)
        return {alias.evaluated_name for alias in aliases}

    @property
    def source(self) -> str:
        """The dotted name of the module that the names come from, empty for a plain import."""
        wanted = self._import
        if isinstance(wanted, cst.Import) or wanted.module is None or wanted.relative:
            return ""
        return syntax.code_of(wanted.module)

    def moved_to(self, source: str) -> Import:
        """Return the import of the same names from another module."""
        wanted = cst.ensure_type(self._import, cst.ImportFrom)
        there = wanted.with_changes(module=cst.parse_expression(source))
        return Import(syntax.code_of(there))

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

    def used_but_missing(self, scope: Scope) -> bool:
        """Tell whether the scope uses one of the names that neither it nor the module imports."""
        absent = self.names - imported_names(scope.module)
        if not absent:
            return False
        # The name of an attribute or of a keyword argument is no use of a variable.
        nodes = [
            node
            for path, node in syntax.descend(scope.node, scope.path)
            if not path or path[-1][0] not in {"attr", "keyword"}
        ]
        absent -= {bound_as(node) for node in nodes if isinstance(node, cst.ImportAlias)}
        return any(isinstance(node, cst.Name) and node.value in absent for node in nodes)

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
