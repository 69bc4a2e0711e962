"""Find edits that may mean something else in this tree.

They come after another exit, use a name that is bound differently, alter a name that this tree's own code uses, or
derive from a class that is declared differently.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.change.edits import Outcome
from patchkit.change.tokens import words
from patchkit.tree.nodes import assigned_names, bound_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.change.edits import EditOutcome
    from patchkit.change.outline import Item


def reported(edit: EditOutcome, base: Item) -> EditOutcome:
    """Return an edit, with a reason if what is around it in ``base`` differs from this tree's in such a way."""
    if edit.outcome is not Outcome.LANDED or edit.key is None or edit.place is None:
        return edit
    for reason, base_text, ours_text in _bases(edit.key[0], edit.place, base):
        return replace(edit, outcome=Outcome.CHANGED, reason=reason, base_text=base_text, ours_text=ours_text)
    function = edit.place.function
    base_function = base.find(edit.key[0].function.site) if edit.key[0].function is not None else None
    if function is None or base_function is None or function.code == base_function.code:
        return edit
    for reason, base_text, ours_text in (
        *_exits(edit, base_function, function),
        *_rebound(edit, base_function, function),
        *_altered(edit, base_function, function),
    ):
        return replace(edit, outcome=Outcome.CHANGED, reason=reason, base_text=base_text, ours_text=ours_text)
    return edit


def _bases(item: Item, place: Item, base: Item) -> Iterator[tuple[str, str, str]]:
    """Yield each base class of a class that the file of this tree declares unlike both versions of the change's."""
    theirs, ours = (item.ancestors[0] if item.ancestors else item for item in (item, place))
    for node in item.nodes:
        for name in map(ast.unparse, node.bases if isinstance(node, ast.ClassDef) else ()):
            base_class, our_class = base.find(name), ours.find(name)
            classes = [item for item in (base_class, theirs.find(name)) if item is not None]
            if (
                our_class is not None
                and classes
                and words(our_class.head) not in [words(item.head) for item in classes]
            ):
                yield f"this tree declares its base class {name} differently", classes[0].head, our_class.head


def _exits(edit: EditOutcome, base_function: Item, function: Item) -> Iterator[tuple[str, str, str]]:
    """Yield each exit of the function before the edit that only this tree has."""
    codes = {_guarded(item).code for item in base_function.walk() if item.is_exit}
    theirs = edit.key[0].function if edit.key is not None else None
    codes |= {_guarded(item).code for item in theirs.walk() if item.is_exit} if theirs else set()
    assert edit.place is not None  # An edit without one is not looked at.
    around = set(edit.place.ancestors)
    for statement in function.walk():
        if statement is edit.place:
            return
        guard = _guarded(statement)
        if statement.is_exit and guard.code not in codes and guard.parent in around:
            line = (
                (guard.head or guard.children[0].head if guard.children else guard.head).strip().rstrip(":")
            )
            yield f"this tree may leave the function before it, at `{line}`", "", guard.dedented


def _guarded(item: Item) -> Item:
    """Return the `if` statement whose branch contains a statement, or the statement itself."""
    branch = item.parent
    is_guarded = branch is not None and branch.kind in {"if", "elif", "else"} and len(branch.children) <= 2
    return branch.parent if is_guarded and branch is not None and branch.parent is not None else item


def _rebound(edit: EditOutcome, base_function: Item, function: Item) -> Iterator[tuple[str, str, str]]:
    """Yield each local name of the new code that other statements bind in this tree."""
    item = edit.key[0] if edit.key is not None else function
    used = {
        node.id
        for top in item.nodes
        for node in ast.walk(top)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    before, after = _bindings(base_function), _bindings(function)
    for name in sorted(used & before.keys() & after.keys()):
        base_items, our_items = before[name], after[name]
        if not {item.code for item in base_items} & {item.code for item in our_items}:
            base_text, ours_text = (
                "".join(item.dedented for item in items) for items in (base_items, our_items)
            )
            yield f"this tree assigns {name} differently", base_text, ours_text


def _altered(edit: EditOutcome, base_function: Item, function: Item) -> Iterator[tuple[str, str, str]]:
    """Yield each name that the edit gives another value, and that code of this tree alone after it reads."""
    assert edit.key is not None  # An edit without one is not looked at.
    item, part = edit.key
    codes = {item.code for item in base_function.walk()}
    before, given = _bindings(base_function), _parameters(base_function)
    altered = _loop_names(item) if part else set[str]()
    for candidate in (
        candidate for candidate in item.walk() if not (part or candidate.children or candidate.code in codes)
    ):
        for name in {name for top in candidate.nodes for name in assigned_names(top)}:
            is_one = not _is_alike(candidate, before[name]) if name in before else name in given
            altered |= {name} if is_one else set()
    own = False
    for statement in function.walk() if altered else ():
        own = own or statement is edit.place
        if own and statement is not edit.place and not statement.children and statement.code not in codes:
            nodes = [node for top in statement.nodes for node in ast.walk(top) if isinstance(node, ast.Name)]
            read = {node.id for node in nodes if isinstance(node.ctx, ast.Load)} & altered
            if read:
                line = statement.own_dedented.partition("\n")[0]
                yield (
                    f"the change alters {min(read)}, which `{line}` of this tree reads",
                    "",
                    statement.dedented,
                )
                return


def _loop_names(item: Item) -> set[str]:
    """Return the names that the header of a loop binds."""
    nodes = ast.walk(item.nodes[0]) if item.kind == "loop" else ()
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _is_alike(item: Item, before: Sequence[Item]) -> bool:
    """Return whether a statement binds a name to what the same function returns as one before."""
    function = _function(item)
    return bool(function) and function in map(_function, before)


def _function(item: Item) -> str:
    """Return the function whose result a statement assigns; empty if it does not."""
    node = item.nodes[0] if len(item.nodes) == 1 else None
    value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
    return ast.unparse(value.func) if isinstance(value, ast.Call) else ""


def _parameters(function: Item) -> set[str]:
    return {node.arg for top in function.nodes for node in ast.walk(top) if isinstance(node, ast.arg)}


def _bindings(function: Item) -> dict[str, list[Item]]:
    """Return the statements of a function that bind each name."""
    bound: dict[str, list[Item]] = {}
    for item in function.walk():
        if item.children or not item.nodes:
            continue
        for top in item.nodes:
            for name in {*assigned_names(top), *bound_names(top)}:
                bound.setdefault(name, []).append(item)
    return bound
