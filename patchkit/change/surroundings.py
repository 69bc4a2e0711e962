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
    theirs, ours = (each.around[0] if each.around else each for each in (item, place))
    for node in item.nodes:
        for name in map(ast.unparse, node.bases if isinstance(node, ast.ClassDef) else ()):
            base_class, our_class = base.find(name), ours.find(name)
            known = [each for each in (base_class, theirs.find(name)) if each is not None]
            if (
                our_class is not None
                and known
                and words(our_class.head) not in [words(each.head) for each in known]
            ):
                yield f"this tree declares its base class {name} differently", known[0].head, our_class.head


def _exits(edit: EditOutcome, base_function: Item, function: Item) -> Iterator[tuple[str, str, str]]:
    """Yield each exit of the function before the edit that only this tree has."""
    known = {_guarded(each).code for each in base_function.walk() if each.is_exit}
    theirs = edit.key[0].function if edit.key is not None else None
    known |= {_guarded(each).code for each in theirs.walk() if each.is_exit} if theirs else set()
    assert edit.place is not None  # An edit without one is not looked at.
    around = set(edit.place.around)
    for each in function.walk():
        if each is edit.place:
            return
        guard = _guarded(each)
        if each.is_exit and guard.code not in known and guard.above in around:
            line = (guard.head or guard.parts[0].head if guard.parts else guard.head).strip().rstrip(":")
            yield f"this tree may leave the function before it, at `{line}`", "", guard.plain


def _guarded(item: Item) -> Item:
    """Return the `if` statement whose branch contains a statement, or the statement itself."""
    branch = item.above
    is_guarded = branch is not None and branch.kind in {"if", "elif", "else"} and len(branch.parts) <= 2
    return branch.above if is_guarded and branch is not None and branch.above is not None else item


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
        if not {each.code for each in base_items} & {each.code for each in our_items}:
            base_text, ours_text = (
                "".join(each.plain for each in items) for items in (base_items, our_items)
            )
            yield f"this tree assigns {name} differently", base_text, ours_text


def _altered(edit: EditOutcome, base_function: Item, function: Item) -> Iterator[tuple[str, str, str]]:
    """Yield each name that the edit gives another value, and that code of this tree alone after it reads."""
    assert edit.key is not None  # An edit without one is not looked at.
    item, part = edit.key
    known = {each.code for each in base_function.walk()}
    before, given = _bindings(base_function), _parameters(base_function)
    altered = _loop_names(item) if part else set[str]()
    for each in (each for each in item.walk() if not (part or each.parts or each.code in known)):
        for name in {name for top in each.nodes for name in assigned_names(top)}:
            is_one = not _is_alike(each, before[name]) if name in before else name in given
            altered |= {name} if is_one else set()
    own = False
    for each in function.walk() if altered else ():
        own = own or each is edit.place
        if own and each is not edit.place and not each.parts and each.code not in known:
            nodes = [node for top in each.nodes for node in ast.walk(top) if isinstance(node, ast.Name)]
            read = {node.id for node in nodes if isinstance(node.ctx, ast.Load)} & altered
            if read:
                line = each.bare.partition("\n")[0]
                yield f"the change alters {min(read)}, which `{line}` of this tree reads", "", each.plain
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
    found: dict[str, list[Item]] = {}
    for item in function.walk():
        if item.parts or not item.nodes:
            continue
        for top in item.nodes:
            for name in {*assigned_names(top), *bound_names(top)}:
                found.setdefault(name, []).append(item)
    return found
