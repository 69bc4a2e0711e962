"""Where attributes are set and which class they have, as far as the source shows it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from patchkit.tree.index import Class, class_of_annotation
from patchkit.tree.nodes import walk

if TYPE_CHECKING:
    from patchkit.tree.index import Program

_PLAIN = frozenset({"ABC", "object", "Protocol", "Generic"})


def may_set(program: Program, cls: Class, name: str) -> bool:
    """Return whether a class or an ancestor sets an attribute, or has a base outside the tree that may."""
    order = program.mro(cls)
    if any(name in known.methods or name in known.fields or _assigns(known, name) for known in order):
        return True
    return has_foreign_base(program, cls)


def has_foreign_base(program: Program, cls: Class) -> bool:
    """Return whether a class has a base outside the tree, which may set any attribute."""
    order = program.mro(cls)
    outside = {base for known in order for base in known.bases} - {known.name for known in order}
    return bool(outside - _PLAIN)


def _assigns(cls: Class, name: str) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        for method in cls.methods.values()
        if name in method.source
        for node in walk(method.node)
    )


def any_file_sets(sources: dict[str, bytes], name: str) -> bool:
    """Return whether any file assigns or defines an attribute of that name."""
    sign = re.compile(rb"\.%s\s*(?::[^=\n]+)?=|def %s\b|^\s+%s\s*:" % ((name.encode(),) * 3), re.MULTILINE)
    return any(name.encode() in text and sign.search(text) for text in sources.values())


def class_of(program: Program, owner: Class | None, name: str) -> Class | None:
    """Return the class of an attribute, or the class that a property is annotated to return; None if unknown."""
    for known in program.mro(owner) if owner is not None else ():
        getter = known.methods.get(name)
        hint = class_of_annotation(getter.node.returns) if getter else known.attribute_classes.get(name)
        found = program.resolve(known.module, hint) if hint else None
        if isinstance(found, Class):
            return found
        if getter is not None:
            return None
    return None
