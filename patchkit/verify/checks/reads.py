"""Check that what patched code reads is set first: local names, and attributes during construction."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.findings.rule import Rule
from patchkit.plan.comments import commenting_patches
from patchkit.tree.index import Class, class_of_annotation, last_name
from patchkit.tree.nodes import statements, walk
from patchkit.tree.sglang import serves
from patchkit.verify.attributes import any_file_sets, class_of, has_foreign_base, may_set
from patchkit.verify.check import CheckOutcome, register, violation
from patchkit.verify.construction import ENTRIES, Construction, assigns, sets_on_self
from patchkit.verify.flow import PathShare, bound_by, headers, names_bound, places
from patchkit.verify.written import written_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.findings.finding import Finding
    from patchkit.tree.index import Function, Module
    from patchkit.verify.flow import Place, Read
    from patchkit.verify.subject import Subject

ATTRIBUTE = Rule(
    "PV406", "attribute-not-yet-set", "patched code reads an attribute that nothing before it sets"
)
NAME = Rule("PV407", "name-not-yet-bound", "patched code reads a local name that nothing before it binds")


@register("reads", "Patched code reads only what is set", ATTRIBUTE, NAME, order=72, of_patches=True)
def check(subject: Subject) -> CheckOutcome:
    """Check each read in a statement that a patch wrote.

    What the source does not show, such as the class of an object, is assumed to be right.
    """
    construction = Construction(subject.program)
    findings: list[Finding] = []
    count = 0
    for file in subject.files:
        module = subject.program.module(file) if serves(file) else None
        lines = written_lines(subject, module) if module is not None else ()
        for function in module.all_functions() if module is not None and lines else ():
            if patched := list(places(function, lines)):
                count += len(patched)
                names = _Locals(function)
                for place in patched:
                    for read in place.reads():
                        findings += _Reading(subject, construction, place, read, lines, names).findings()
    return CheckOutcome(f"{count} statements of patches", tuple(dict.fromkeys(findings)))


@dataclass(frozen=True)
class _Reading:
    """One read in a statement that a patch wrote."""

    subject: Subject
    construction: Construction
    place: Place
    read: Read
    lines: Sequence[int]
    names: _Locals

    @property
    def function(self) -> Function:
        return self.place.function

    def findings(self) -> Iterator[Finding]:
        if self.read.root == "self" and self.function.owner is not None:
            yield from self._self_findings(self.function.owner)
            return
        found = list(self._unbound())
        yield from found
        maker = self.function.owner
        if (
            not found
            and self.read.attributes
            and maker
            and self.function in self.construction.construction_functions(maker)
        ):
            yield from self._chain_findings(self._class_of_name(), self.read.attributes, self.read.root)

    def _unbound(self) -> Iterator[Finding]:
        """Yield a finding for a local name that is not bound on every path."""
        name = self.read.root
        if name not in self.names or self.place.catches("UnboundLocalError"):
            return
        share, deciding = self.place.path_share(lambda node: self.names.binds(node, name), self.read.node)
        if share is PathShare.ALL or (deciding is not None and not self._is_certain(deciding, name)):
            return
        where = (
            "on no path to this line"
            if deciding is None
            else f"only if `{_condition(deciding)}` (line {deciding.lineno})"
        )
        message = f"{self.function.qualname} reads `{name}`, which is bound {where}"
        yield self._finding(NAME, message, name)

    def _self_findings(self, owner: Class) -> Iterator[Finding]:
        known, program = self.construction, self.subject.program
        name, *rest = self.read.attributes or ("",)
        if not name or name.startswith("__") or _guarded(self.place, name):
            return
        found: list[Finding] = []
        if not known.is_class_attribute(owner, name) and not has_foreign_base(program, owner):
            found = list(
                self._read_early(owner, name)
                if may_set(program, owner, name)
                else self._undefined_attribute(owner, name)
            )
        yield from found
        if rest and not found and self.function in known.construction_functions(owner):
            yield from self._chain_findings(class_of(program, owner, name), rest, f"self.{name}")

    def _undefined_attribute(self, owner: Class, name: str) -> Iterator[Finding]:
        """Yield a finding for an attribute that no file of the tree sets."""
        if not any_file_sets(self.subject.sources, name) and not self.construction.has_hidden_attributes(
            owner
        ):
            message = f"{self._reads(name)}, which nothing in the tree sets"
            yield self._finding(ATTRIBUTE, message, f"self.{name}")

    def _read_early(self, owner: Class, name: str) -> Iterator[Finding]:
        """Yield a finding for an attribute of ``self`` that is read before the constructor has set it."""
        known = self.construction
        if self.function not in known.construction_functions(owner) or known.has_hidden_attributes(owner):
            return
        if not self._unset(owner, self.place, self.read.node, name, ()):
            return
        subclasses = self.construction.subclasses(owner)
        if any(
            name in subclass.fields or name in subclass.methods or _class_sets_on_self(subclass, name)
            for subclass in subclasses
        ):
            return
        for first in known.own_setters(owner, name)[:1]:
            message = (
                f"{self._reads(name)} during construction, before {_first_assignment(first, name)} sets it"
            )
            yield self._finding(ATTRIBUTE, message, f"self.{name}")

    def _unset(
        self, owner: Class, place: Place, read: ast.AST, name: str, below: tuple[Function, ...]
    ) -> bool:
        """Return whether an attribute may be unset on some path from the start of construction to a place."""
        known = self.construction
        share, deciding = place.path_share(lambda node: assigns(node, name, "self"), read)
        if share is PathShare.ALL or (deciding is not None and not self._is_certain(deciding, name, place)):
            return False
        calls = known.calls_setter(owner, name)
        if place.path_share(lambda node: calls(node, place.function), read)[0] is not PathShare.NONE:
            return False
        if place.function.name in ENTRIES:
            return True
        return any(
            self._unset(owner, site, node, name, (*below, place.function))
            for caller in known.construction_functions(owner)
            if caller not in (*below, place.function)
            and place.function in known.reachable_methods(owner, caller)
            for site in places(caller)
            for part in site.parts
            for node in walk(part)
            if _is_call_of(node, place.function.name)
        )

    def _chain_findings(
        self, owner: Class | None, attributes: Sequence[str], chain: str
    ) -> Iterator[Finding]:
        """Yield a finding for the first attribute of a chain that the object does not have yet."""
        program, known = self.subject.program, self.construction
        maker = self.function.owner
        for name in attributes:
            if (
                maker is None
                or owner is None
                or name.startswith("__")
                or _guarded(self.place, name)
                or known.has_hidden_attributes(owner)
            ):
                return
            chain = f"{chain}.{name}"
            if not known.is_class_attribute(owner, name) and not known.constructor_can_set(owner, name):
                yield from self._set_later(maker, owner, name, chain)
                return
            owner = class_of(program, owner, name)

    def _set_later(self, maker: Class, owner: Class, name: str, chain: str) -> Iterator[Finding]:
        known = self.construction
        setters = known.own_setters(owner, name)
        if not setters or not known.is_constructed(owner):
            return
        late = known.late_assignment(
            maker, self.place, owner, name, given=not self._is_constructed_here(owner)
        )
        if late is None:
            return
        assignment = _first_assignment(setters[0], name)
        message = f"{self._reads(chain)}, and `{name}` of {owner.name} is first set by {assignment}"
        if late.called:
            message += (
                f", which {late.function.qualname} ({late.function.module.file}:{late.line}) reaches through "
                f"`{late.called}`, after {maker.name} is constructed"
            )
        yield self._finding(ATTRIBUTE, message, chain)

    def _is_constructed_here(self, owner: Class) -> bool:
        """Return whether the function constructs the object that it reads from."""
        first = self.read.attributes[:1] if self.read.root == "self" else ()
        chain = ".".join((self.read.root, *first))
        return any(
            last_name(statement.value.func) == owner.name and chain in map(ast.unparse, statement.targets)
            for statement in statements(self.function.node)
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)
        )

    def _class_of_name(self) -> Class | None:
        """Return the class of a parameter's annotation, or of the only constructor call bound to the name."""
        program, function, name = self.subject.program, self.function, self.read.root
        hints = [class_of_annotation(a.annotation) for a in function.parameters if a.arg == name]
        bound = self.names.binding(name)
        if (
            not hints
            and len(bound) == 1
            and isinstance(bound[0], ast.Assign)
            and isinstance(bound[0].value, ast.Call)
        ):
            hints = [last_name(bound[0].value.func)]
        elif hints and bound:
            return None
        found = program.resolve(function.module, hints[0]) if hints and hints[0] else None
        return found if isinstance(found, Class) else None

    def _is_certain(self, deciding: ast.If, name: str, place: Place | None = None) -> bool:
        """Return whether the place is reached even where the test of ``deciding`` is false."""
        place = place or self.place
        if place.depends(deciding) or (place is self.place and self.read.conditional):
            return False
        # Other code that reads the same name here implies that it is set.
        return not any(
            last_name(node) == name
            for statement in place.after()
            if statement.lineno not in self.lines
            for node in walk(statement)
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load)
        )

    def _reads(self, chain: str) -> str:
        return f"{self.function.qualname} reads `{chain if '.' in chain else f'self.{chain}'}`"

    def _finding(self, rule: Rule, message: str, expression: str) -> Finding:
        line = self.read.node.lineno
        by = _patch_above(self.function.module, self.function.node.lineno, line)
        move = "move the read below the assignment"
        remedy = f"patchkit revert {by}, or {move}" if by else move
        file = self.function.module.file
        return violation(
            rule, file, line, message, remedy, function=self.function.qualname, expression=expression
        )


def _is_call_of(node: ast.AST, name: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "self"
    )


def _class_sets_on_self(cls: Class, name: str) -> bool:
    return any(sets_on_self(method, name) for method in cls.methods.values())


def _first_assignment(setter: Function, name: str) -> str:
    lines = (each.lineno for each in statements(setter.node) if assigns(each, name, "self"))
    return f"{setter.qualname} ({setter.module.file}:{next(lines)})"


def _guarded(place: Place, name: str) -> bool:
    """Return whether the function tests for the attribute or handles its absence."""
    lookup = re.search(
        rf"\b[gh](?:et|as)attr\([^()]*(?:\([^()]*\)[^()]*)*[\"']{name}[\"']", place.function.source
    )
    return lookup is not None or place.catches("AttributeError")


class _Locals:
    """The local names that a function binds, except parameters, and the nodes that bind them."""

    def __init__(self, function: Function) -> None:
        self._found: dict[str, dict[int, ast.stmt]] = {}
        arguments = function.node.args
        given = (*function.parameters, arguments.vararg, arguments.kwarg)
        self._others = {each.arg for each in given if each is not None}
        for statement in statements(function.node):
            if isinstance(statement, (ast.Global, ast.Nonlocal)):
                self._others.update(statement.names)
            for part in (*headers(statement), *bound_by(statement)):
                for name in names_bound(part):
                    self._found.setdefault(name, {})[id(part)] = statement

    def __contains__(self, name: str) -> bool:
        return name in self._found and name not in self._others

    def binding(self, name: str) -> list[ast.stmt]:
        """Return the statements that bind a name."""
        return list(self._found.get(name, {}).values())

    def binds(self, node: ast.AST, name: str) -> bool:
        """Return whether a node, a part of a statement or a target, binds a name."""
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            return node.id == name
        return id(node) in self._found[name]


def _condition(deciding: ast.If) -> str:
    return ast.unparse(deciding.test)


def _patch_above(module: Module, start: int, line: int) -> str:
    """Return the patch whose comment is the last one above a line of a function, or an empty string."""
    for number in range(line, start - 1, -1):
        found = commenting_patches(module.lines[number - 1].encode() + b"\n")
        if found:
            return min(found)
    return ""
