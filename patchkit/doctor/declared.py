"""Find the class of a tree's server settings, and the classes that it is assembled from."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.tree import sglang
from patchkit.tree.index import Class
from patchkit.tree.nodes import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from patchkit.tree.index import Function, Index, Module

SETTINGS = "ServerArgs"
_USUAL = f"{sglang.SERVING}/server_args.py"


@dataclass(frozen=True)
class SettingsDeclaration:
    """The class of a server's settings, and the ``parts`` that it is assembled from.

    ``fields`` are the annotated fields of the class and then those of the parts.
    """

    cls: Class
    parts: tuple[Class, ...]
    fields: dict[str, ast.AnnAssign]

    def derived(self, index: Index) -> dict[str, Function]:
        """Return the functions that compute attributes from the fields, by attribute: each one's ``fn``."""
        functions: dict[str, Function] = {}
        for part in self.parts:
            for name, value in part.fields.items():
                for word in value.keywords if isinstance(value, ast.Call) else ():
                    if word.arg == "fn" and isinstance(word.value, ast.Constant):
                        function = _function(index, str(word.value.value))
                        functions |= {name: function} if function is not None else {}
        return functions


def declared(
    index: Index, files: Callable[[], Iterable[tuple[str, bytes]]], tree: str
) -> SettingsDeclaration:
    """Return the declared settings; ``files`` yields the serving code, and messages call the tree ``tree``.

    Raise TreeError if no file or more than one defines the class, or if it has no fields.
    """
    cls = _usual(index) or _anywhere(index, files(), tree)
    parts = tuple(_parts(index, cls))
    fields: dict[str, ast.AnnAssign] = {}
    for part in (cls, *parts):
        for ancestor in index.mro(part):
            for item in ancestor.node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    fields.setdefault(item.target.id, item)
    if not fields:
        raise TreeError(
            f"{tree}: {SETTINGS} in {cls.module.file} declares no field, in its body, its bases or a class that it is "
            "assembled from, so the options of this tree's server are unknown"
        )
    return SettingsDeclaration(cls, parts, fields)


def _function(index: Index, dotted: str) -> Function | None:
    module, _, name = dotted.rpartition(".")
    file = index.file_of(module)
    home = index.module(file) if file is not None else None
    return home.functions.get(name) if home is not None else None


def _usual(index: Index) -> Class | None:
    module = index.module(_USUAL)
    if module is None and _USUAL in index.unparsed:
        raise TreeError("not valid Python", where=_USUAL, advice="fix it and try again")
    definition = index.resolve(module, SETTINGS) if module is not None else None
    return definition if isinstance(definition, Class) else None


def _anywhere(index: Index, files: Iterable[tuple[str, bytes]], tree: str) -> Class:
    """Return the class from any file that defines it."""
    named = [file for file, text in files if f"class {SETTINGS}".encode() in text]
    modules = [module for file in named if (module := index.module(file)) is not None]
    classes = [module.classes[SETTINGS] for module in modules if SETTINGS in module.classes]
    if len(classes) == 1:
        return classes[0]
    if classes:
        raise TreeError(
            f"{tree}: {' and '.join(cls.module.file for cls in classes)} each define a class {SETTINGS}, and which "
            "one is the server's is unknown",
            advice=f"import that one in {_USUAL}",
        )
    raise TreeError(
        f"{tree}: no file below {sglang.SERVING}/ defines a class {SETTINGS}", advice="name an sglang tree"
    )


def _parts(index: Index, cls: Class) -> Iterator[Class]:
    """Yield the classes from which the module assembles the class, by assigning its annotations or the class itself."""
    module = cls.module
    assigned: dict[str, list[str]] = {}
    for target, names in _assigned(module):
        assigned.setdefault(target, []).extend(names)
    pending = [*assigned.get(f"{cls.name}.__annotations__", ()), *assigned.get(cls.name, ())]
    seen = {cls.name}
    while pending:
        name = pending.pop(0)
        if name in seen:
            continue
        seen.add(name)
        pending += assigned.get(name, ())
        definition = index.resolve(module, name)
        if isinstance(definition, Class):
            yield definition


def _assigned(module: Module) -> Iterator[tuple[str, list[str]]]:
    """Yield each target that the top level assigns, with the names in the value."""
    for statement in module.tree.body:
        if isinstance(statement, ast.Assign):
            names = [node.id for node in walk(statement.value) if isinstance(node, ast.Name)]
            for target in statement.targets:
                for element in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                    yield ast.unparse(element), names
