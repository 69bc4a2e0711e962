"""Check that what patched code reads is there: names, and attributes of the object that it is part of.

Names are ruff's to find. An attribute is looked for in the class, its bases and, if nothing there sets it, in the tree;
of a constructor, only its own statements are put in order.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from patchkit.change.undefined import unbound_names
from patchkit.findings.rule import Rule
from patchkit.plan.comments import commenting_patches
from patchkit.tree.index import last_name
from patchkit.tree.nodes import is_named, walk
from patchkit.tree.sglang import serves
from patchkit.verify.attributes import any_file_sets, has_foreign_base, may_set, sets, setters, subclasses
from patchkit.verify.check import CheckOutcome, register, violation
from patchkit.verify.written import written_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from patchkit.findings.finding import Finding
    from patchkit.tree.index import Class, Function, Module, Program
    from patchkit.verify.subject import Subject

ATTRIBUTE = Rule(
    "PV406", "attribute-not-yet-set", "patched code reads an attribute that nothing before it sets"
)
NAME = Rule("PV407", "name-not-yet-bound", "patched code reads a name that nothing before it binds")
CONSTRUCTORS = ("__init__", "__post_init__")
# What sets attributes that the source does not show.
_HOOKS = frozenset({"__getattr__", "__getattribute__", "__new__"})
_BY_NAME = ("setattr(self", "__setattr__(self", "self.__dict__", "vars(self")
_DEFERRED = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.GeneratorExp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


@register("reads", "Patched code reads only what is set", ATTRIBUTE, NAME, order=72, of_patches=True)
def check(subject: Subject) -> CheckOutcome:
    """Check each line that a patch wrote.

    What the source does not show, such as the class of an object, is assumed to be right.
    """
    modules = {file: subject.program.module(file) for file in subject.files if serves(file)}
    written = {
        module: lines
        for module in modules.values()
        if module is not None and (lines := frozenset(written_lines(subject, module)))
    }
    findings = list(_unbound(subject, written))
    for module, lines in written.items():
        for function in module.all_functions():
            if function.owner is not None:
                findings += _unset(subject, function, function.owner, lines)
    count = sum(map(len, written.values()))
    return CheckOutcome(f"{count} lines of patches", tuple(dict.fromkeys(findings)))


def _unbound(subject: Subject, written: dict[Module, frozenset[int]]) -> Iterator[Finding]:
    """Yield a finding for each name that a patch's line reads unbound, and that the original does not."""
    for module, lines in written.items():
        names = [name for name in unbound_names(module.text) if name[1] in lines]
        bound = (
            {name for name, _ in unbound_names(subject.originals.get(module.file) or b"")} if names else set()
        )
        for name, line in names:
            if name in bound:
                continue
            around = [
                function.qualname
                for function in module.all_functions()
                if function.node.lineno <= line <= (function.node.end_lineno or 0)
            ]
            where = around[-1] if around else ""
            message = f"{where or 'the module'} reads `{name}`, which nothing before this line binds"
            yield _finding(NAME, module, line, message, (where, name))


def _unset(subject: Subject, function: Function, owner: Class, lines: Collection[int]) -> Iterator[Finding]:
    """Yield a finding for each attribute of ``self`` that a patch's line reads and that is not set there."""
    program = subject.program
    if not any(function.node.lineno <= line <= (function.node.end_lineno or 0) for line in lines):
        return
    if has_foreign_base(program, owner) or any(map(_hides_attributes, program.mro(owner))):
        return
    for node in _reads(function):
        name = node.attr
        if (
            node.lineno not in lines
            or name.startswith("__")
            or _is_of_class(program, owner, name)
            or is_guarded(function, name)
        ):
            continue
        reader = function.qualname, f"self.{name}"
        reads = f"{function.qualname} reads `self.{name}`"
        if not may_set(program, owner, name):
            if not any_file_sets(subject.sources, name, of_others=not any(subclasses(program, owner, ""))):
                message = f"{reads}, which nothing sets on a {owner.name}"
                yield _finding(ATTRIBUTE, function.module, node.lineno, message, reader)
        elif function.name in CONSTRUCTORS and _is_early(program, owner, function, node):
            method, first = next(
                setter for ancestor in program.mro(owner) for setter in setters(ancestor, name)
            )
            place = f"{method.module.file}:{first.lineno}"
            message = f"{reads} during construction, before {method.qualname} ({place}) sets it"
            yield _finding(ATTRIBUTE, function.module, node.lineno, message, reader)


def _reads(function: Function) -> list[ast.Attribute]:
    """Return the reads of attributes of ``self`` that a function does itself, not when something in it is called."""
    later = {
        id(inner)
        for node in walk(function.node)
        if isinstance(node, _DEFERRED) and node is not function.node
        for inner in walk(node)
    }
    augmented = {id(node.target) for node in walk(function.node) if isinstance(node, ast.AugAssign)}
    return [
        node
        for node in walk(function.node)
        if isinstance(node, ast.Attribute)
        and is_named(node.value, "self")
        and (isinstance(node.ctx, ast.Load) or id(node) in augmented)
        and id(node) not in later
    ]


def _is_early(program: Program, owner: Class, function: Function, read: ast.Attribute) -> bool:
    """Return whether nothing that a constructor does above a read can set the attribute, and no subclass does."""
    position = read.lineno, read.col_offset
    for node in walk(function.node):
        if isinstance(node, _LOOPS) and node.lineno <= read.lineno <= (node.end_lineno or 0):
            return False
        is_above = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)) < position
        if is_above and (sets(node, read.attr) or (isinstance(node, ast.Call) and reaches_self(node))):
            return False
    return not any(
        read.attr in cls.fields or read.attr in cls.methods or any(setters(cls, read.attr))
        for cls in subclasses(program, owner, read.attr)
    )


def reaches_self(call: ast.Call) -> bool:
    """Return whether a call passes ``self`` or is one of its, or its bases', methods."""
    func = call.func
    of_self = isinstance(func, ast.Attribute) and (
        is_named(func.value, "self") or last_name(func.value) == "super"
    )
    passed = (*call.args, *(word.value for word in call.keywords))
    return of_self or any(is_named(argument, "self") for argument in passed)


def _is_of_class(program: Program, cls: Class, name: str) -> bool:
    """Return whether the class itself provides an attribute: a method, property, value, class or dataclass field."""
    return any(
        name in ancestor.methods
        or ancestor.fields.get(name) is not None
        or (name in ancestor.fields and ancestor.node.decorator_list)
        or any(isinstance(child, ast.ClassDef) and child.name == name for child in ancestor.node.body)
        for ancestor in program.mro(cls)
    )


def _hides_attributes(cls: Class) -> bool:
    """Return whether objects of a class may have attributes that the source does not show."""
    decorators = {last_name(decorator) for decorator in cls.node.decorator_list}
    by_name = any(word in method.source for method in cls.methods.values() for word in _BY_NAME)
    return by_name or bool(_HOOKS & cls.methods.keys() or cls.node.keywords or decorators - {"dataclass"})


def is_guarded(function: Function, name: str) -> bool:
    """Return whether a function tests for the attribute or handles its absence."""
    lookup = re.search(rf"\b[gh](?:et|as)attr\([^()]*(?:\([^()]*\)[^()]*)*[\"']{name}[\"']", function.source)
    return lookup is not None or "AttributeError" in function.source


def _finding(rule: Rule, module: Module, line: int, message: str, reader: tuple[str, str]) -> Finding:
    """Return the finding of a line; ``reader`` is the function and what it reads."""
    above = (commenting_patches(text.encode() + b"\n") for text in reversed(module.lines[:line]))
    by = next((min(names) for names in above if names), "")
    move = "move the read below the assignment"
    remedy = f"patchkit revert {by}, or {move}" if by else move
    function, expression = reader
    return violation(rule, module.file, line, message, remedy, function=function, expression=expression)
