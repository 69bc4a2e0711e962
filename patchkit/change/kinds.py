"""The kinds of classes, such as dataclass or struct: what of a class depends on that of its base classes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from patchkit.change.imports import all_imported, parted
from patchkit.tree.index import last_name
from patchkit.tree.sglang import files_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.change.outline import Item

    Read = Callable[[str], Item | None]

_KINDS = frozenset({"Struct", "BaseModel", "TypedDict", "NamedTuple", "Enum", "IntEnum", "StrEnum", "Flag"})
"""Base classes that make a class of the annotations or values in it."""
_DECORATORS = frozenset({"dataclass", "define", "attrs", "frozen"})
_FIELDS = frozenset({"field", "Field", "ib"})
_MAX_STEPS = 8


def another_kind(item: Item, head_only: bool, theirs: tuple[Read, str], ours: tuple[Read, str]) -> str:
    """Return how a base class of an item's class differs in kind in this tree, if the item depends on that; or nothing.

    ``theirs`` and ``ours`` are a function that returns a file of a tree, and the file of the class.
    """
    owner = item if item.kind == "ClassDef" else item.parent
    if owner is None or owner.kind != "ClassDef" or not (item is owner or head_only or _has_field(item)):
        return ""
    for base in owner.bases:
        kinds = [_kinds_of(read, file, base, _MAX_STEPS) for read, file in (theirs, ours)]
        if None not in kinds and kinds[0] != kinds[1]:
            names = [" and ".join(sorted(kind or ())) or "a plain class" for kind in kinds]
            return f"its base class {base} is of another kind in this tree: {names[1]}, not {names[0]}"
    return ""


def may_depend(before: bytes, after: bytes) -> bool:
    """Return whether a change between two versions of a file may depend on the kind of a class."""
    changed = set(before.splitlines()) ^ set(after.splitlines())
    signs = (b"class ", *(f"{name}(".encode() for name in _FIELDS))
    return any(line.lstrip().startswith(b"@") or any(map(line.__contains__, signs)) for line in changed)


def _has_field(item: Item) -> bool:
    """Return whether a statement of a class is a field that only one kind of class understands."""
    return any(isinstance(node, ast.Call) and last_name(node.func) in _FIELDS for node in item.syntax())


def _kinds_of(read: Read, file: str, name: str, steps: int) -> frozenset[str] | None:
    """Return the kinds of a class that a file defines or imports; None if it is not found."""
    last = name.rpartition(".")[2]
    if last in _KINDS:
        return frozenset({last})
    root = read(file)
    if root is None or steps == 0:
        return None
    definition = root.find(name)
    if definition is None:
        lines = all_imported(root.walk())
        line = next((line for line in lines if line.split()[-1] == name.partition(".")[0]), "")
        source, taken, _ = parted(line)
        homes = files_of(source) if taken else ()
        if not homes:
            return frozenset() if line else None  # It is a class of another package.
        candidates = (_kinds_of(read, home, taken, steps - 1) for home in homes)
        return next((kinds for kinds in candidates if kinds is not None), None)
    kinds = {kind for node in definition.nodes if isinstance(node, ast.ClassDef) for kind in _decorated(node)}
    for base in definition.bases:
        kinds |= _kinds_of(read, file, base, steps - 1) or frozenset()
    return frozenset(kinds)


def _decorated(node: ast.ClassDef) -> list[str]:
    """Return the kinds that its decorators make of a class."""
    names = []
    for decorator in node.decorator_list:
        name = last_name(decorator)
        if name in _DECORATORS:
            words = decorator.keywords if isinstance(decorator, ast.Call) else ()
            is_frozen = any(word.arg == "frozen" and ast.unparse(word.value) == "True" for word in words)
            names.append(f"frozen {name}" if is_frozen else name)
    return names
