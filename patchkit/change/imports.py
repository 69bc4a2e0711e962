"""Import statements as the names that they import."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from patchkit.change.outline import STEP

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchkit.change.outline import Item

_WIDTH = 88


def imported(item: Item) -> list[str]:
    """Return an import statement as imports of one name each."""
    node = item.nodes[0]
    if isinstance(node, ast.ImportFrom):
        source = "." * node.level + (node.module or "")
        return [f"from {source} import {ast.unparse(alias)}" for alias in node.names]
    if isinstance(node, ast.Import):
        return [f"import {ast.unparse(alias)}" for alias in node.names]
    return []


def all_imported(items: Iterable[Item]) -> list[str]:
    """Return the import statements among some items as imports of one name each."""
    return [line for item in items if item.is_import for line in imported(item)]


def parted(line: str) -> tuple[str, str, str]:
    """Return the module of an import of one name, what is taken from it, and another name for that, if there is one."""
    whole, _, alias = line.partition(" as ")
    source, _, taken = whole.removeprefix("from ").removeprefix("import ").partition(" import ")
    return source, taken, alias


def joined(base: Item, theirs: Item | None, ours: Item) -> str:
    """Return a `from` import with names added and removed; an empty string for other statements."""
    kinds = {base.kind, ours.kind, "ImportFrom" if theirs is None else theirs.kind}
    if kinds != {"ImportFrom"}:
        return ""
    base_names, theirs_names, ours_names = (
        imported(item) if item is not None else [] for item in (base, theirs, ours)
    )
    names = [name for name in ours_names if name in theirs_names or name not in base_names]
    names += [name for name in theirs_names if name not in base_names and name not in ours_names]
    return import_of(names, ours) if names else ""


def bound(name: str) -> str:
    """Return the name that an import of one name binds."""
    return name.rsplit(maxsplit=1)[-1].partition(".")[0]


def import_of(names: Sequence[str], ours: Item) -> str:
    """Return one import of several names, as long on a line as ``ours``."""
    if names[0].startswith("import "):
        return f"import {', '.join(name.removeprefix('import ') for name in names)}\n"
    start = names[0].partition(" import ")[0]
    listed = [name.partition(" import ")[2] for name in names]
    line = f"{start} import {', '.join(listed)}\n"
    if len(line) <= _WIDTH and "(" not in ours.own:
        return line
    return f"{start} import (\n" + "".join(f"{STEP}{name},\n" for name in listed) + ")\n"


def import_place(block: Item) -> int:
    """Return the position of a new import: after those above all definitions, or at the beginning."""
    end = next(
        (index for index, item in enumerate(block.children) if item.is_definition), len(block.children)
    )
    index = [index for index, item in enumerate(block.children[:end]) if item.is_import]
    return index[-1] + 1 if index else int(block.docstring is not None)
