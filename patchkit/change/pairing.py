"""Pair the items of two versions of a file: by name, by equal text, or by the greatest likeness."""

from __future__ import annotations

import difflib
import keyword
import re
from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING

from patchkit.change.tokens import words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from patchkit.change.outline import Item

_MIN_RATIO = 0.6
_MIN_SHARE = 0.5
_MIN_RATIO_OF_ONE_TARGET = 0.3
_WORD = re.compile(r"[\w\"']")
_MAX_COMPARISONS = 40_000
"""The most comparisons for two runs of statements."""


def paired(one: Sequence[Item], other: Sequence[Item]) -> dict[Item, Item]:
    """Return the pairs of items of two rows; all but definitions are in order."""
    pairs = _pair_by_name(one, other)
    rest = [item for item in one if item not in pairs]
    taken = set(pairs.values())
    unpaired = [item for item in other if item not in taken]
    pairs |= _pair_by(attrgetter("code"), rest, unpaired)
    pairs |= _pair_by_likeness(one, other, pairs)
    return pairs


def _pair_by_name(one: Sequence[Item], other: Sequence[Item]) -> dict[Item, Item]:
    """Pair definitions by name; if there are several of a name, the first with the first."""
    by_key: dict[tuple[bool, str], list[Item]] = {}
    for item in other:
        if item.is_definition:
            by_key.setdefault((item.is_function, item.name), []).append(item)
    pairs: dict[Item, Item] = {}
    for item in one:
        same = by_key.get((item.is_function, item.name))
        if item.is_definition and same:
            pairs[item] = same.pop(0)
    return pairs


def _pair_by(key: Callable[[Item], str], one: Sequence[Item], other: Sequence[Item]) -> dict[Item, Item]:
    """Pair, in order, the items with an equal key."""
    pairs = equal_positions([*map(key, one)], [*map(key, other)])
    return {one[a]: other[b] for a, b in pairs.items()}


def _pair_by_likeness(
    one: Sequence[Item], other: Sequence[Item], pairs: Mapping[Item, Item]
) -> dict[Item, Item]:
    """Pair, between paired items, the items with the greatest likeness, in order."""
    places = {item: index for index, item in enumerate(other)}
    more: dict[Item, Item] = {}
    taken = set(pairs.values())
    start = low = 0
    ends = [index for index, item in enumerate(one) if item in pairs and not item.is_definition]
    for end in (*ends, len(one)):
        high = places[pairs[one[end]]] if end < len(one) else len(other)
        if high >= low:
            left = [item for item in one[start:end] if item not in pairs]
            right = [item for item in other[low:high] if item not in taken]
            more |= _best_pairs(left, right)
            low = high + 1
        start = end + 1
    return more


def _best_pairs(left: Sequence[Item], right: Sequence[Item]) -> dict[Item, Item]:
    if len(left) * len(right) > _MAX_COMPARISONS:  # Only assignments, by their targets.
        rows = ([item for item in row if item.name and "Assign" in item.kind] for row in (left, right))
        return _pair_by(attrgetter("name"), *rows)
    if not left or not right:
        return {}
    scores = [[likeness(a, b) for b in right] for a in left]
    # The best sum of likenesses in order, as in the longest common subsequence.
    best = [[0.0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for a in range(len(left) - 1, -1, -1):
        for b in range(len(right) - 1, -1, -1):
            here = scores[a][b] + best[a + 1][b + 1] if scores[a][b] else 0.0
            best[a][b] = max(here, best[a + 1][b], best[a][b + 1])
    pairs: dict[Item, Item] = {}
    a = b = 0
    while a < len(left) and b < len(right):
        if scores[a][b] and best[a][b] == scores[a][b] + best[a + 1][b + 1]:
            pairs[left[a]] = right[b]
            a, b = a + 1, b + 1
        elif best[a][b] == best[a + 1][b]:
            a += 1
        else:
            b += 1
    return pairs


def equal_positions(one: Sequence[str], other: Sequence[str]) -> dict[int, int]:
    """Return the positions in two sequences at which the longest matching runs have equal elements."""
    blocks = difflib.SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return {block.a + n: block.b + n for block in blocks for n in range(block.size)}


def likeness(one: Item, other: Item) -> float:
    """Return the likeness of two items, from 0 (never paired) to 1."""
    if one.form != other.form and {one.kind, other.kind} != {"Assign", "AnnAssign"}:
        return 0.0
    if one.is_definition and one.name != other.name:
        score = _shared(one, other)
        return score if score >= _MIN_SHARE else 0.0
    if one.is_definition or one.kind in {"else", "finally", "try"}:
        return 1.0
    if one.is_import:
        return 1.0 if one.name == other.name else 0.0
    if one.children and other.children:
        return _compound(one, other)
    if one.name and one.name == other.name and one.kind != "Expr":
        return max(ratio(one.words, other.words, _MIN_RATIO_OF_ONE_TARGET), _MIN_RATIO_OF_ONE_TARGET)
    least = _MIN_RATIO if one.name == other.name else 0.9 if one.kind == "Expr" else 0.75
    return ratio(one.words, other.words, least)


def is_form(one: Item, other: Item) -> bool:
    """Return whether an unpaired statement may be another form of a statement."""
    kinds = {one.kind, other.kind}
    if one.is_definition or one.is_import or (len(kinds) > 1 and kinds != {"Assign", "AnnAssign"}):
        return False
    one_function, other_function = (
        item.name.rpartition(".")[2] if item.kind == "Expr" else "" for item in (one, other)
    )
    left, right = (
        [word for word in item.words if _WORD.match(word) and word not in {name, "self", *keyword.kwlist}]
        for item, name in ((one, one_function), (other, other_function))
    )
    total = len(left) + len(right)
    shared = (Counter(left) & Counter(right)).total()
    return one_function == other_function and 2 * shared >= _MIN_SHARE * total


def _compound(one: Item, other: Item) -> float:
    first, second = one.header, other.header
    head = 1.0 if first == second else ratio(words(first), words(second), _MIN_RATIO)
    if not head and first.strip() in {item.header.strip() for item in other.walk()}:
        return 0.0  # It stands around the other one.
    body = _shared(one, other)
    score = max(body, (head + body) / 2 if head >= _MIN_RATIO else 0.0, 0.9 * head if head > 0.85 else 0.0)
    return score if score >= _MIN_SHARE else 0.0


def _shared(one: Item, other: Item) -> float:
    """Return the share of equal lines of two bodies, in any order."""
    left, right = one.inner_lines, other.inner_lines
    total = left.total() + right.total()
    return 2 * (left & right).total() / total if total else 0.0


def ratio(one: Sequence[str], other: Sequence[str], least: float) -> float:
    """Return the share of two rows that is equal, in order; 0 if it is less than ``least``."""
    total = len(one) + len(other)
    if not total:
        return 1.0
    if 2 * min(len(one), len(other)) < least * total:
        return 0.0
    if 2 * (Counter(one) & Counter(other)).total() < least * total:
        return 0.0
    share = difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()
    return share if share >= least else 0.0
