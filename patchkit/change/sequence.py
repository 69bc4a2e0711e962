"""Check that a merge keeps the order and the blocks of this tree's own statements, and leaves each one reachable."""

from __future__ import annotations

import ast
from collections import Counter
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from patchkit.change.outline import dumped
from patchkit.tree.nodes import BLOCKS, EXITS, TRIES
from patchkit.tree.source import INVALID, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from patchkit.change.correspondence import Correspondence
    from patchkit.change.outline import Item

_WIDTH = 40


class Disturbance(NamedTuple):
    """What a merge would do to a statement, and the codes (``Item.code``) of the statements that are concerned."""

    reason: str
    codes: frozenset[str]


def disturbances(
    versions: tuple[Item, Item, Item], result: Item, correspondence: Correspondence
) -> Iterator[Disturbance]:
    """Yield what a merge of a statement does amiss: ``versions`` are base, theirs and ours, ``result`` is a file."""
    base, theirs, ours = versions
    nodes = [node for part in result.children for node in part.nodes]
    yield from unreachable(theirs.nodes, ours.nodes, nodes)
    paired = set(correspondence.within(base, ours))
    yield from _uprooted(base, ours, result, paired)
    yield from _reordered(versions, result, paired)


def unreachable(
    theirs: Sequence[ast.AST], ours: Sequence[ast.AST], result: Sequence[ast.AST]
) -> Iterator[Disturbance]:
    """Yield the statements that can be reached in the versions that have them, and no longer in the result."""
    known_codes = {dumped(node) for nodes in (theirs, ours) for node, _, _ in _behind_exits(nodes)}
    shared: set[str] = set()
    for statement, before, leaving in _behind_exits(result):
        code, neighbour = dumped(statement), dumped(before)
        if code in known_codes:
            continue
        # Beside code of both versions that one of them leaves unreachable, code of the other one shares that.
        is_common = neighbour in known_codes and neighbour in codes(theirs) and neighbour in codes(ours)
        if neighbour in shared or (before is not leaving and is_common):
            shared.add(code)
            continue
        one, other = (_line(ast.unparse(node)) for node in (statement, leaving))
        reason = f"in this tree `{one}` would be unreachable, behind `{other}`"
        yield Disturbance(reason, frozenset({code, dumped(leaving)}))


def unreachable_in(theirs: str, ours: str, result: str) -> str:
    """Return why a merge of texts leaves a statement unreachable; empty if none is, or a text is not Python."""
    try:
        trees = [[parsed(text)] for text in (theirs, ours, result)]
        return next((disturbance.reason for disturbance in unreachable(*trees)), "")
    except INVALID:
        return ""


def codes(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the codes of all statements in some nodes."""
    return {dumped(node) for top in nodes for node in ast.walk(top) if isinstance(node, ast.stmt)}


def _behind_exits(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.stmt, ast.stmt, ast.stmt]]:
    """Yield each unreachable statement, the one before it, and the one that leaves its block."""
    remaining = list(nodes)
    while remaining:
        node = remaining.pop()
        for name in BLOCKS:
            block = getattr(node, name, None)
            if not isinstance(block, list):
                continue
            remaining += block
            index = next((index for index, statement in enumerate(block) if _leaves(statement)), len(block))
            for place in range(index + 1, len(block)):
                yield block[place], block[place - 1], block[index]


def _leaves(node: ast.stmt) -> bool:
    """Return whether a statement always leaves its block."""
    if isinstance(node, ast.If):
        return _any_leaves(node.body) and _any_leaves(node.orelse)
    if isinstance(node, TRIES):
        always = [[*node.body, *node.orelse], *(handler.body for handler in node.handlers)]
        return _any_leaves(node.finalbody) or all(map(_any_leaves, always))
    if isinstance(node, (ast.With, ast.AsyncWith)):
        # Its context may suppress an exception.
        return _any_leaves(node.body) and not any(isinstance(node, ast.Raise) for node in ast.walk(node))
    if isinstance(node, ast.Match):
        last = node.cases[-1]
        is_any = last.guard is None and isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
        return is_any and all(_any_leaves(case.body) for case in node.cases)
    return isinstance(node, EXITS)


def _any_leaves(block: Sequence[ast.stmt]) -> bool:
    return any(map(_leaves, block))


def _uprooted(base: Item, ours: Item, result: Item, paired: set[Item]) -> Iterator[Disturbance]:
    """Yield the statements of this tree alone that the result lacks, or has in another block."""
    base_codes, before = {item.code for item in base.walk()}, _blocks_of(ours, 1)
    after = _blocks_of(result, 2)
    for statement in ours.walk():
        if (
            statement.children
            or statement in paired
            or statement.code in base_codes
            or len(before[statement.code]) > 1
        ):
            continue
        blocks = after.get(statement.code, [])
        if before[statement.code][0] not in blocks:
            what = "in another block" if blocks else "lost"
            reason = f"in this tree `{_line(statement.own_dedented)}` would be {what}"
            yield Disturbance(reason, frozenset({statement.code}))


def _blocks_of(item: Item, depth: int) -> Mapping[str, list[tuple[str, ...]]]:
    """Return the kinds of the blocks around each statement, without the ``depth`` outermost, by its code."""
    outer = len(item.ancestors) + depth
    blocks: dict[str, list[tuple[str, ...]]] = {}
    for statement in item.walk():
        blocks.setdefault(statement.code, []).append(
            tuple(around.kind for around in statement.ancestors[outer:])
        )
    return blocks


def _reordered(versions: tuple[Item, Item, Item], result: Item, paired: set[Item]) -> Iterator[Disturbance]:
    """Yield the first statement of this tree alone whose order to one that stays the result reverses."""
    base, theirs, ours, merged = (_places(version) for version in (*versions, result))
    stay = [code for code in base if code in theirs]
    positions = [theirs[code] for code in stay]
    before, after = accumulate(positions, max), [*accumulate(reversed(positions), min)][::-1]
    unmoved = {
        code
        for code, place, high, low in zip(stay, positions, before, after, strict=True)
        if high == low == place
    }
    own = {item.code for item in versions[2].walk() if item not in paired} - base.keys()
    kept = [code for code in ours if code in merged and (code in own or code in unmoved)]
    for one, other in pairwise(kept):
        if merged[one] > merged[other]:
            first, second = (
                _line(next(item.own_dedented for item in versions[2].walk() if item.code == code))
                for code in (one, other)
            )
            reason = f"in this tree `{second}` would come before `{first}`"
            yield Disturbance(reason, frozenset({one, other}))
            return


def _places(item: Item) -> Mapping[str, int]:
    """Return the positions of the statements that occur once, in order, by their code."""
    item_codes = [item.code for item in item.walk()]
    number = Counter(item_codes)
    return {code: index for index, code in enumerate(item_codes) if number[code] == 1}


def _line(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
