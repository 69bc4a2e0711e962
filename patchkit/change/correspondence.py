"""The parts of two versions of an item that correspond, and the locals that one of them has renamed."""

from __future__ import annotations

import ast
import keyword
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchkit.change.pairing import paired
from patchkit.change.tokens import words
from patchkit.tree.nodes import assigned_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchkit.change.outline import Item


@dataclass
class Correspondence:
    """What corresponds in two versions of an item; computed once, also for several merges of the same items."""

    _pairs: dict[tuple[Item, Item], dict[Item, Item]] = field(default_factory=dict)
    _names: dict[tuple[Item, Item], dict[str, str]] = field(default_factory=dict)

    def parts(self, one: Item, other: Item) -> dict[Item, Item]:
        """Return the pairs of parts of two items that correspond."""
        if (one, other) not in self._pairs:
            self._pairs[one, other] = paired(one.children, other.children)
        return self._pairs[one, other]

    def within(self, one: Item, other: Item) -> Iterator[Item]:
        """Yield the parts of the second item, at any depth, that correspond to a part of the first."""
        for part, counterpart in self.parts(one, other).items():
            yield counterpart
            yield from self.within(part, counterpart)

    def names(self, one: Item, other: Item) -> dict[str, str]:
        """Return the names of a function that were renamed in another one."""
        if (one, other) not in self._names:
            self._names[one, other] = _renamed_locals(one, other, self.parts(one, other))
        return self._names[one, other]


def _renamed_locals(base: Item, ours: Item, pairs: Mapping[Item, Item]) -> dict[str, str]:
    """Return the locals and parameters that have another name in this tree's function."""
    counterparts = dict(pairs)
    counterparts[base] = ours
    renamed = _renamed_words(counterparts, base, ours) | _renamed_parameters(base, ours)
    before, after = _bound_names(base), _bound_names(ours)
    return {
        old: new
        for old, new in renamed.items()
        if old in before
        and new in after
        and old not in after
        and new not in before
        and not keyword.iskeyword(new)
    }


def _renamed_words(pairs: Mapping[Item, Item], base: Item, ours: Item) -> dict[str, str]:
    """Return the names of ``base`` that are renamed in ``ours``: every occurrence has the other name.

    The evidence are paired statements that differ in nothing else.
    """
    votes: dict[str, Counter[str]] = {}
    base_words, our_words = set(base.words), set(ours.words)
    for one, other in pairs.items():
        if one.code == other.code:
            continue
        left, right = words(one.head), words(other.head)
        if len(left) != len(right):
            continue
        differing = {(a, b) for a, b in zip(left, right, strict=True) if a != b}
        if len(differing) == 1 and all(a.isidentifier() and b.isidentifier() for a, b in differing):
            ((old, new),) = differing
            if old not in our_words and new not in base_words:
                votes.setdefault(old, Counter())[new] += 1
    return {old: next(iter(new)) for old, new in votes.items() if len(new) == 1}


def _renamed_parameters(base: Item, ours: Item) -> dict[str, str]:
    """Return the parameters that have another name at the same position, if their number is equal."""
    one, other = (_parameters(item) for item in (base, ours))
    if len(one) != len(other):
        return {}
    return {a: b for a, b in zip(one, other, strict=True) if a != b and b not in one and a not in other}


def _parameters(item: Item) -> list[str]:
    node = item.nodes[0]
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    given = node.args
    return [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _bound_names(item: Item) -> set[str]:
    """Return the names that a function binds, its parameters included."""
    return assigned_names(*item.nodes) | {node.arg for node in item.syntax() if isinstance(node, ast.arg)}
