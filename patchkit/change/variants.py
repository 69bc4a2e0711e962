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
    if edit.outcome not in {Outcome.LANDED, Outcome.CHANGED} or edit.key is None or edit.place is None:
        return ""
    item, part = edit.key
    site = _around(item).site
    before = base.find(site) if site else base
    if before is None or (edit.place.function is None) is not (item.function is None):
        return ""
    ours = _parts(_around(edit.place))
    new, codes = ({statement.code for statement in _statements(items)} for items in ([item], _parts(before)))
    calls = _calls([item]) - _calls(_parts(before))
    variants = (
        *(statement for statement in _statements(ours) if statement.code in new - codes),
        *(statement for statement in _statements(ours, 1) if _called(statement) in calls),
    )
    if variants:
        return " ".join(variants[0].own_dedented.split("\n")[0].split())
    here = {word for item in ours for word in words(item.own)}
    return min(names & set(words(item.head if part else item.own)) & here, default="")


def new_names(before: Iterable[Item], after: Iterable[Item]) -> frozenset[str]:
    """Return the names and attributes that a change binds and that its files did not have."""
    earlier_words = {word for item in before for word in words(item.own)}
    return frozenset(name for item in after for name in _bound(item) if name not in earlier_words)


def _bound(item: Item) -> Iterator[str]:
    for top in item.walk():
        for node in top.syntax() if not top.children else ():
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
                yield node.id if isinstance(node, ast.Name) else node.attr
        if top.is_definition:
            yield top.name


def _around(place: Item) -> Item:
    """Return the function around a place, else the class or the file."""
    scopes = [item for item in (*place.ancestors, place) if item.is_scope]
    return place.function or (scopes[-1] if scopes else place)


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
    name = item.name if item.kind == "Expr" else ""
    return "" if name.startswith(("log", "print", "warnings.", "super(")) else name
