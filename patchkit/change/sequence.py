"""Check that a merge keeps the order of this tree's own statements, and that each statement stays reachable."""

from __future__ import annotations

import ast
from collections import Counter
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from patchkit.change.correspondence import Correspondence
    from patchkit.change.outline import Item

_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
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
    nodes = [node for part in result.parts for node in part.nodes]
    yield from unreachable(theirs.nodes, ours.nodes, nodes)
    yield from _reordered(versions, result, set(correspondence.within(base, ours)))


def unreachable(
    theirs: Sequence[ast.AST], ours: Sequence[ast.AST], result: Sequence[ast.AST]
) -> Iterator[Disturbance]:
    """Yield the statements that can be reached in the versions that have them, and no longer in the result."""
    known = {ast.dump(each) for nodes in (theirs, ours) for each, _, _ in _behind_exits(nodes)}
    shared: set[str] = set()
    for statement, before, leaving in _behind_exits(result):
        code, neighbour = ast.dump(statement), ast.dump(before)
        if code in known:
            continue
        # Beside code of both versions that one of them leaves unreachable, code of the other one shares that.
        is_common = neighbour in known and neighbour in codes(theirs) and neighbour in codes(ours)
        if neighbour in shared or (before is not leaving and is_common):
            shared.add(code)
            continue
        one, other = (_line(ast.unparse(each)) for each in (statement, leaving))
        reason = f"in this tree `{one}` would be unreachable, behind `{other}`"
        yield Disturbance(reason, frozenset({code, ast.dump(leaving)}))


def codes(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the codes of all statements in some nodes."""
    return {ast.dump(node) for top in nodes for node in ast.walk(top) if isinstance(node, ast.stmt)}


def _behind_exits(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.stmt, ast.stmt, ast.stmt]]:
    """Yield each unreachable statement, the one before it, and the one that leaves its block."""
    for top in nodes:
        for node in ast.walk(top):
            for block in _blocks(node):
                at = next((at for at, each in enumerate(block) if _leaves(each)), len(block))
                for place in range(at + 1, len(block)):
                    yield block[place], block[place - 1], block[at]


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def _leaves(node: ast.stmt) -> bool:
    """Return whether a statement always leaves its block."""
    if isinstance(node, ast.If):
        return _any_leaves(node.body) and _any_leaves(node.orelse)
    if isinstance(node, ast.Try):
        always = [[*node.body, *node.orelse], *(each.body for each in node.handlers)]
        return _any_leaves(node.finalbody) or all(map(_any_leaves, always))
    if isinstance(node, (ast.With, ast.AsyncWith)):
        # Its context may suppress an exception.
        return _any_leaves(node.body) and not any(isinstance(each, ast.Raise) for each in ast.walk(node))
    return isinstance(node, _EXITS)


def _any_leaves(block: Sequence[ast.stmt]) -> bool:
    return any(map(_leaves, block))


def _reordered(versions: tuple[Item, Item, Item], result: Item, paired: set[Item]) -> Iterator[Disturbance]:
    """Yield the first statement of this tree alone whose order to one that stays the result reverses."""
    base, theirs, ours, merged = (_places(each) for each in (*versions, result))
    stay = [code for code in base if code in theirs]
    at = [theirs[code] for code in stay]
    before, after = accumulate(at, max), [*accumulate(reversed(at), min)][::-1]
    unmoved = {
        code for code, place, high, low in zip(stay, at, before, after, strict=True) if high == low == place
    }
    own = {each.code for each in versions[2].walk() if each not in paired} - base.keys()
    kept = [code for code in ours if code in merged and (code in own or code in unmoved)]
    for one, other in pairwise(kept):
        if merged[one] > merged[other]:
            first, second = (
                _line(next(each.bare for each in versions[2].walk() if each.code == code))
                for code in (one, other)
            )
            reason = f"in this tree `{second}` would come before `{first}`"
            yield Disturbance(reason, frozenset({one, other}))
            return


def _places(item: Item) -> Mapping[str, int]:
    """Return the positions of the statements that occur once, in order, by their code."""
    found = [each.code for each in item.walk()]
    number = Counter(found)
    return {code: at for at, code in enumerate(found) if number[code] == 1}


def _line(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
