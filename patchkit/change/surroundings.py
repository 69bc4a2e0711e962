"""Find edits that may mean something else in this tree.

They come after another exit, use a name that is bound differently, alter a name that this tree's own code uses, or
derive from a class that is declared differently.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.change.edits import Outcome
from patchkit.change.outline import dedented
from patchkit.change.tokens import words
from patchkit.tree.nodes import assigned_names, bound_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.change.edits import EditOutcome
    from patchkit.change.outline import Item

    _Difference = tuple[str, str, str]
    """What differs, and the code in the change's tree and in this one."""


def reported(edit: EditOutcome, base: Item) -> EditOutcome:
    """Return an edit, with a reason if what is around it in ``base`` differs from this tree's in such a way."""
    if edit.outcome is not Outcome.LANDED or edit.key is None or edit.place is None:
        return edit
    item, part = edit.key
    reason, base_text, ours_text = next(_differences(item, part, edit.place, base), ("", "", ""))
    if not reason:
        return edit
    return replace(edit, outcome=Outcome.CHANGED, reason=reason, base_text=base_text, ours_text=ours_text)


def _differences(item: Item, part: str, place: Item, base: Item) -> Iterator[_Difference]:
    """Yield how what is around an edit of an item, or of its header, differs from this tree's around its place."""
    yield from _bases(item, place, base)
    function = place.function
    base_function = base.find(item.function.site) if item.function is not None else None
    if function is not None and base_function is not None and function.code != base_function.code:
        yield from _exits(item, place, base_function, function)
        yield from _rebound(item, base_function, function)
        yield from _altered(item, part, place, base_function, function)


def _bases(item: Item, place: Item, base: Item) -> Iterator[_Difference]:
    """Yield each base class of a class that the file of this tree declares unlike both versions of the change's."""
    theirs, ours = item.root, place.root
    for name in item.bases:
        our_class = ours.find(name)
        classes = [there for file in (base, theirs) if (there := file.find(name)) is not None]
        if (
            our_class is not None
            and classes
            and words(our_class.head) not in [words(there.head) for there in classes]
        ):
            yield f"this tree declares its base class {name} differently", classes[0].head, our_class.head


def _exits(item: Item, place: Item, base_function: Item, function: Item) -> Iterator[_Difference]:
    """Yield each exit of the function before the edit that only this tree has."""
    functions = [one for one in (base_function, item.function) if one is not None]
    codes = {_guarded(inner).code for one in functions for inner in one.walk() if inner.is_exit}
    around = set(place.ancestors)
    for statement in function.walk():
        if statement is place:
            return
        guard = _guarded(statement)
        if statement.is_exit and guard.code not in codes and guard.parent in around:
            line = guard.header.strip().rstrip(":")
            yield f"this tree may leave the function before it, at `{line}`", "", guard.dedented


def _guarded(item: Item) -> Item:
    """Return the `if` statement whose branch contains a statement, or the statement itself."""
    branch = item.parent
    is_guarded = branch is not None and branch.kind in {"if", "elif", "else"} and len(branch.children) <= 2
    return branch.parent if is_guarded and branch is not None and branch.parent is not None else item


def _rebound(item: Item, base_function: Item, function: Item) -> Iterator[_Difference]:
    """Yield each local name of the new code that other statements bind in this tree."""
    before, after = _bindings(base_function), _bindings(function)
    for name in sorted(_read(item) & before.keys() & after.keys()):
        base_items, our_items = before[name], after[name]
        if not {one.code for one in base_items} & {one.code for one in our_items}:
            yield f"this tree assigns {name} differently", dedented(base_items), dedented(our_items)


def _altered(
    item: Item, part: str, place: Item, base_function: Item, function: Item
) -> Iterator[_Difference]:
    """Yield each name that the edit gives another value, and that code of this tree alone after it reads."""
    codes = {statement.code for statement in base_function.walk()}
    before, given = _bindings(base_function), _parameters(base_function)
    # The header of a loop binds names.
    altered = assigned_names(item.nodes[0]) if part and item.kind == "loop" else set[str]()
    for candidate in item.walk() if not part else ():
        if not (candidate.children or candidate.code in codes):
            for name in assigned_names(*candidate.nodes):
                is_one = not _is_alike(candidate, before[name]) if name in before else name in given
                altered |= {name} if is_one else set()
    inside = [*function.walk()] if altered else []
    for statement in inside[inside.index(place) + 1 :] if place in inside else ():
        if not statement.children and statement.code not in codes:
            read = _read(statement) & altered
            if read:
                line = statement.own_dedented.partition("\n")[0]
                reason = f"the change alters {min(read)}, which `{line}` of this tree reads"
                yield reason, "", statement.dedented


def _read(item: Item) -> set[str]:
    """Return the names that an item reads."""
    nodes = (node for node in item.syntax() if isinstance(node, ast.Name))
    return {node.id for node in nodes if isinstance(node.ctx, ast.Load)}


def _is_alike(item: Item, before: Sequence[Item]) -> bool:
    """Return whether a statement binds a name to what the same function returns as one before."""
    function = _function(item)
    return bool(function) and function in map(_function, before)


def _function(item: Item) -> str:
    """Return the function whose result a statement assigns; empty if it does not."""
    value = item.node.value if isinstance(item.node, (ast.Assign, ast.AnnAssign)) else None
    return ast.unparse(value.func) if isinstance(value, ast.Call) else ""


def _parameters(function: Item) -> set[str]:
    return {node.arg for node in function.syntax() if isinstance(node, ast.arg)}


def _bindings(function: Item) -> dict[str, list[Item]]:
    """Return the statements of a function that bind each name."""
    bound: dict[str, list[Item]] = {}
    for item in function.walk():
        for top in item.nodes if not item.children else ():
            for name in {*assigned_names(top), *bound_names(top)}:
                bound.setdefault(name, []).append(item)
    return bound
