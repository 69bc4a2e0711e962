"""Where attributes are set and which class they have, as far as the source shows it."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from patchkit.tree.index import Class, class_of_annotation
from patchkit.tree.nodes import is_named, walk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeGuard

    from patchkit.tree.index import Function, Program

_COMPUTED = re.compile(rb"setattr\(\s*[\w.\[\]]+\s*,\s*[fF]([\"'])(.*?)\1")
_PLAIN = frozenset({"ABC", "object", "Protocol", "Generic"})


def may_set(program: Program, cls: Class, name: str) -> bool:
    """Return whether a class or an ancestor sets an attribute, or has a base outside the tree that may."""
    order = program.mro(cls)
    if any(
        name in ancestor.methods or name in ancestor.fields or any(setters(ancestor, name))
        for ancestor in order
    ):
        return True
    return has_foreign_base(program, cls)


def subclasses(program: Program, cls: Class, name: str) -> Iterator[Class]:
    """Yield the classes that a class is a base of, in files that have a name."""
    bases = program.mro(cls)
    for module in program.modules_naming(cls.name.encode()):
        for definition in module.classes.values() if name.encode() in module.text else ():
            if definition not in bases and cls.name in program.ancestors(definition):
                yield definition


def has_foreign_base(program: Program, cls: Class) -> bool:
    """Return whether a class has a base outside the tree, which may set any attribute."""
    order = program.mro(cls)
    outside = {base for ancestor in order for base in ancestor.bases} - {ancestor.name for ancestor in order}
    return bool(outside - _PLAIN)


def setters(cls: Class, name: str) -> Iterator[tuple[Function, ast.Attribute]]:
    """Yield the methods of a class that set an attribute, each with where it does."""
    for method in cls.methods.values():
        for node in walk(method.node) if name in method.source else ():
            if sets(node, name):
                yield method, node


def sets(node: ast.AST, name: str) -> TypeGuard[ast.Attribute]:
    """Return whether a node is an attribute of ``self`` that is set."""
    is_set = isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store)
    return is_set and is_named(node.value, "self")  # type: ignore[attr-defined]


def any_file_sets(sources: dict[str, bytes], name: str, *, of_others: bool = False) -> bool:
    """Return whether any file assigns or defines an attribute of that name, or one whose name it computes so.

    With ``of_others`` only what is set on something else than ``self`` counts.
    """
    word = re.escape(name.encode())
    assigned = rb"\.%s\s*(?::[^=\n]+)?=|\.%s\s*,[^()\n]*=|\b(?:as|for)\s+[\w.]+\.%s\b"
    defined = rb"(?<!\bself)(?:%s)" % assigned if of_others else assigned + rb"|def %s\b|^\s+%s\s*:"
    sign = re.compile(defined % ((word,) * defined.count(b"%s")), re.MULTILINE)
    quoted = re.compile(rb"[\"']%s[\"']" % word)
    for text in sources.values():
        is_named = name.encode() in text
        if is_named and (sign.search(text) or (b"setattr(" in text and quoted.search(text))):
            return True
        if any(re.fullmatch(pattern, name) for pattern in _computed_names(text)):
            return True
    return False


@lru_cache(maxsize=8192)
def _computed_names(text: bytes) -> tuple[str, ...]:
    """Return patterns of the names that a file gives to attributes and that it puts together."""
    calls = _COMPUTED.findall(text) if b"setattr(" in text else ()
    parts = (re.split(r"\{[^{}]*\}", pattern.decode(errors="replace")) for _, pattern in calls)
    return tuple(".+".join(map(re.escape, pieces)) for pieces in parts if any(pieces))


def class_of(program: Program, owner: Class | None, name: str) -> Class | None:
    """Return the class of an attribute, or the class that a property is annotated to return; None if unknown."""
    for ancestor in program.mro(owner):
        getter = ancestor.methods.get(name)
        hint = class_of_annotation(getter.node.returns) if getter else ancestor.attribute_classes.get(name)
        definition = program.resolve(ancestor.module, hint) if hint else None
        if isinstance(definition, Class):
            return definition
        if getter is not None:
            return None
    return None
