"""Find edits of which a tree has a variant of its own: made there, the same thing would be done twice."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from patchkit.change.edits import Outcome
from patchkit.change.tokens import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from patchkit.change.edits import EditOutcome
    from patchkit.change.outline import Item

_DISTINCT = 8
"""The fewest tokens of a statement that is unlikely to stand twice in a function by chance."""


def variant_of(edit: EditOutcome, base: Item, names: frozenset[str]) -> str:
    """Return the line or name by which this tree has a variant of an edit already; empty if it has none.

    That is a statement or a call of the new code that the function did not have before the change, or one of
    ``names``, which the change binds and its own tree did not know.
    """
    item, place = edit.key[0] if edit.key is not None else None, edit.place
    if edit.outcome not in {Outcome.LANDED, Outcome.CHANGED} or item is None or place is None:
        return ""
    before, ours = _scope_of(base, item), _around(place)
    if before is None or (place.function is None) is not (item.function is None):
        return ""
    new = {statement.code: statement for statement in _statements([item])}
    codes = {statement.code for statement in _statements(_parts(before))}
    for statement in _statements(_parts(ours)):
        if statement.code in new and statement.code not in codes:
            return " ".join(statement.own_dedented.split("\n")[0].split())
    calls = _calls([item]) - _calls(_parts(before))
    for statement in _statements(_parts(ours), 1):
        if _called(statement) in calls:
            return " ".join(statement.own_dedented.split("\n")[0].split())
    text = item.head if edit.key is not None and edit.key[1] else item.own
    here = {word for item in _parts(ours) for word in words(item.own)}
    return min(names & set(words(text)) & here, default="")


def new_names(before: Iterable[Item], after: Iterable[Item]) -> frozenset[str]:
    """Return the names and attributes that a change binds and that its files did not have."""
    earlier_words = {word for item in before for word in words(item.own)}
    return frozenset(name for item in after for name in _bound(item) if name not in earlier_words)


def _bound(item: Item) -> Iterator[str]:
    for top in item.walk():
        for node in top.nodes if not top.children else ():
            for child in ast.walk(node):
                if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                    yield child.id
                elif isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store):
                    yield child.attr
        if top.is_definition:
            yield top.name


def _around(place: Item) -> Item:
    """Return the function around a place, else the class or the file."""
    scopes = [item for item in (*place.ancestors, place) if item.is_scope]
    return place.function or (scopes[-1] if scopes else place)


def _scope_of(base: Item, item: Item) -> Item | None:
    """Return the same of the base's file."""
    site = _around(item).site
    return base.find(site) if site else base


def _parts(scope: Item) -> list[Item]:
    """Return the parts of a function, or those of a class or file that are not in its definitions."""
    if scope.is_function:
        return [scope]
    return [item for item in scope.flat() if not item.is_definition and not item.children]


def _statements(items: Iterable[Item], fewest: int = _DISTINCT) -> Iterator[Item]:
    for item in items:
        for part in item.walk():
            is_plain = not (part.children or part.is_import or part.documentation)
            if is_plain and len(part.words) >= fewest:
                yield part


def _calls(items: Iterable[Item]) -> frozenset[str]:
    """Return what the statements of some items call."""
    return frozenset(filter(None, map(_called, _statements(items, 1))))


def _called(item: Item) -> str:
    """Return the function that a statement only calls, empty if it does not, or if it only logs."""
    node = item.nodes[0] if len(item.nodes) == 1 else None
    call = node.value if isinstance(node, ast.Expr) else None
    name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
    return "" if name.startswith(("log", "print", "warnings.", "super(")) else name
