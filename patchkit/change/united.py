"""What two sides do to one statement, at one place or to one run of imports, where both fit together, made in both.

Elements between brackets are united, and of the rest the words that only one side changes. Where the order of what
both sides add would be a guess, neither is changed.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from typing import TYPE_CHECKING

from patchkit.change.blocks import merged_count
from patchkit.change.comments import comments, stripped_lines
from patchkit.change.correspondence import Correspondence
from patchkit.change.effects import effects, order_matters
from patchkit.change.imports import all_imported, bound, import_of, imported
from patchkit.change.outline import Item, NoOutlineError, dumped, outline
from patchkit.change.output import Output
from patchkit.change.pairing import equal_positions
from patchkit.change.statements import Form, as_code, form_of, merged_header, merged_statement
from patchkit.change.tokens import ClashError, Element, Group, parsed, shifted, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.change.tokens import Node

_ODD_SPACE = re.compile(r"\w \(|\. \w")
_WORD = re.compile(r"[\w\"']")
_SIGNS = frozenset("()[]{},")
_ASSERTION = re.compile(r"assert |self\.assert[A-Z]")
_DEFINITION = re.compile(r"^(?:async\s+def|def|class)\b", re.MULTILINE)

_STILL = frozenset(
    ("re.compile", "frozenset", "TypeVar", "typing.TypeVar", "namedtuple", "collections.namedtuple")
)
"""Functions whose calls only make a value."""

Three = tuple[str, str, str]
"""Base, ours and theirs."""


def united(versions: Three) -> Three | None:
    """Return three versions of a file with what fits together in all of them; NoOutlineError if one is not Python.

    None if one side adds a statement to some that the other replaces by others, or a branch where it changes a test.
    """
    base, ours, theirs = (outline(text) for text in versions)
    union = _Union()
    union.unite(base, ours, theirs)
    if union.is_at_odds:
        return None
    one, two, three = map(Output.render, union.outputs, (base, ours, theirs))
    return one, two, three


class _Union:
    def __init__(self) -> None:
        self._correspondence = Correspondence()
        self.outputs = Output(), Output(), Output()
        self.is_at_odds = False

    def unite(self, *items: Item) -> None:
        """Unite the parts of three versions of an item."""
        base, ours, theirs = items
        to_ours, to_theirs = (self._correspondence.parts(base, side) for side in (ours, theirs))
        for one in base.children:
            if one in to_ours and one in to_theirs:
                self._unite_item(one, to_ours[one], to_theirs[one])
        self._unite_gaps(*items)

    def _unite_item(self, *items: Item) -> None:
        base, ours, theirs = items
        if ours.code == theirs.code or base.code in {ours.code, theirs.code}:
            return
        kinds = {item.kind for item in items}
        if all(item.children for item in items) and len(kinds) == 1:
            heads = [item.head_dedented for item in items]
            if len(set(heads)) == len(heads):
                agreed = _agreed(heads, base.kind)
                for output, item in zip(self.outputs, items, strict=True) if agreed else ():
                    output.write_head(item, agreed)
            self.is_at_odds |= base.kind == "If" and _adds_branch(*items)
            self.unite(*items)
        elif not any(item.children or item.is_import or len(item.nodes) != 1 for item in items):
            agreed = _agreed([item.own_dedented for item in items], "")
            for output, item in zip(self.outputs, items, strict=True) if agreed else ():
                output.write(item, agreed)

    def _unite_gaps(self, *items: Item) -> None:
        """Unite what is between the parts that all versions have: one statement of each, or additions."""
        base, *sides = items
        pairs = [self._correspondence.parts(base, side) for side in sides]
        places = [{item: index for index, item in enumerate(side.children)} for side in sides]
        last: tuple[int, ...] = (-1, -1, -1)
        ends = [
            (index, *(place[pair[one]] for pair, place in zip(pairs, places, strict=True)))
            for index, one in enumerate(base.children)
            if all(one in pair for pair in pairs)
        ]
        for end in (*ends, tuple(len(item.children) for item in items)):
            if any(high <= low for low, high in zip(last, end, strict=True)):  # A definition that moved.
                continue
            gaps_of_items = [
                item.children[low + 1 : high] for item, low, high in zip(items, last, end, strict=True)
            ]
            if (
                all(len(run) == 1 for run in gaps_of_items)
                and len({(run[0].kind, run[0].name) for run in gaps_of_items}) == 1
            ):
                self._unite_item(*(run[0] for run in gaps_of_items))
            elif gaps_of_items[0] and (wrapped := _wrapped(*gaps_of_items)):
                self._wrap(items, last, end, wrapped)
            elif not base.is_scope and _adds_to_replaced(*gaps_of_items):
                self.is_at_odds = True
            elif (
                not gaps_of_items[0]
                and (base.parent is None or not base.is_scope)
                and _is_free(*gaps_of_items[1:])
            ):
                self._add_both(items, last, end)
            last = end

    def _add_both(self, items: Sequence[Item], last: Sequence[int], end: Sequence[int]) -> None:
        """Add what each side adds between two places, ours first, in the other versions."""
        _, ours, theirs = items
        runs = ours.children[last[1] + 1 : end[1]], theirs.children[last[2] + 1 : end[2]]
        for side, (output, item) in enumerate(zip(self.outputs, items, strict=True)):
            for from_side, run, index in ((1, runs[0], last[side] + 1), (2, runs[1], end[side])):
                for added in run if side != from_side else ():
                    output.insert(item, index, shifted(added.text, added.indent, item.inner_indent))

    def _wrap(
        self, items: Sequence[Item], last: Sequence[int], end: Sequence[int], texts: Sequence[str]
    ) -> None:
        """Put a run into the block that one side puts around it, in each other version that has a text for it."""
        for output, item, low, high, text in zip(self.outputs, items, last, end, texts, strict=True):
            if text:
                for part in item.children[low + 1 : high]:
                    output.delete(part)
                output.insert(item, low + 1, shifted(text, "", item.inner_indent))


def _adds_branch(base: Item, ours: Item, theirs: Item) -> bool:
    """Return whether one side adds or removes a branch of a condition that the other one changes."""
    heads, *sides = ([part.head_dedented for part in item.children] for item in (base, ours, theirs))
    return any(len(one) != len(heads) and other not in (heads, one) for one, other in (sides, sides[::-1]))


def _adds_to_replaced(*runs: Sequence[Item]) -> bool:
    """Return whether one side of a run replaces statements to which the other adds; a block around them keeps them."""
    base, ours, theirs = (
        {inner.code for item in run for part in (item, *item.children) for inner in (part, *part.children)}
        for run in runs
    )
    return any(
        base - one and one - base and other - base - one for one, other in ((ours, theirs), (theirs, ours))
    )


def _wrapped(base: Sequence[Item], ours: Sequence[Item], theirs: Sequence[Item]) -> Three | None:
    """Return a run in the block that one side puts around it, as base and the other side have it inside; else None.

    The text of the side that has the block is empty. None as well if the other side adds statements or names to the
    run, or reads anew what the block does: then it could be about the same.
    """
    for outer, inner in ((theirs, ours), (ours, theirs)):
        around = outer[0] if len(outer) == 1 else None
        block = _block(around) if around is not None else None
        if around is None or block is None or not len(base) == len(inner) == len(block.children):
            continue
        is_same = all(
            one.code == part.code and comments(one.own) == comments(part.own)
            for one, part in zip(base, block.children, strict=True)
        )
        kinds = [[(item.kind, item.name) for item in run] for run in (base, inner)]
        leads = [[stripped_lines(item.lead) for item in run] for run in (base, inner)]
        new = Counter(filter(_WORD.match, (word for item in inner for word in item.words)))
        new -= Counter(word for item in base for word in item.words)
        beside = {*words(around.head_dedented), *words(block.head_dedented)}
        beside |= {
            word
            for part in around.children
            if part is not block and block is not around
            for word in part.words
        }
        if (
            is_same
            and kinds[0] == kinds[1]
            and leads[0] == leads[1]
            and beside.isdisjoint(new)
            and effects(inner)[0] <= effects(base)[0]
        ):
            output = Output()
            for one, part in zip(inner, block.children, strict=True):
                output.write(part, one.own_dedented)
            text = shifted(output.render(around), around.indent, "")
            return (around.dedented, "", text) if inner is theirs else (around.dedented, text, "")
    return None


def _block(item: Item) -> Item | None:
    """Return the block of a statement that runs at most once: what it is around; None if it is not one."""
    if item.kind in {"With", "AsyncWith"}:
        return item
    clauses = [part.kind for part in item.children]
    return item.children[0] if clauses == ["if"] or clauses[:1] == ["try"] else None


def _is_free(one: Sequence[Item], other: Sequence[Item]) -> bool:
    """Return whether two runs of added statements may stand in either order."""
    codes = [{item.code for item in run} for run in (one, other)]
    if not (one and other) or codes[0] & codes[1] or order_matters(one, other):
        return False
    still = [all(map(_is_still, run)) for run in (one, other)]
    return all(still) or any(
        is_still and all(map(_is_constant, run)) for is_still, run in zip(still, (one, other), strict=True)
    )


def _is_constant(item: Item) -> bool:
    """Return whether a statement that only binds a name reads nothing that another could change."""
    values = [top.value for top in item.nodes if isinstance(top, (ast.Assign, ast.AnnAssign)) and top.value]
    calls = [node.func for value in values for node in ast.walk(value) if isinstance(node, ast.Call)]
    made = {id(node) for call in calls for node in ast.walk(call)}
    return not any(
        isinstance(node, ast.Name) and id(node) not in made for value in values for node in ast.walk(value)
    )


def _is_still(item: Item) -> bool:
    """Return whether a statement only binds a name, without a call that could have an effect."""
    if item.is_import:
        return True
    acting = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
    return item.kind in {"Assign", "AnnAssign"} and not any(
        isinstance(node, acting) or (isinstance(node, ast.Call) and ast.unparse(node.func) not in _STILL)
        for node in item.syntax()
    )


def _agreed(texts: Sequence[str], kind: str) -> str:
    """Return the merge of three versions of a statement or header; empty unless it is the same in both directions."""
    if _ASSERTION.match(texts[0]):  # One may change what is tested, the other what is expected.
        return ""
    starts = [_DEFINITION.search(text) for text in texts]
    decorators = [text[: start.start() if start else 0] for text, start in zip(texts, starts, strict=True)]
    if kind and any(decorators):
        base, ours, theirs = decorators
        rest = [text.removeprefix(prefix) for text, prefix in zip(texts, decorators, strict=True)]
        above = ours if theirs in {base, ours} else theirs if base == ours else None
        below = _agreed(rest, kind) if len(set(rest)) == len(rest) else rest[1 + (rest[0] == rest[1])]
        return above + below if above is not None and below else ""
    base, ours, theirs = texts
    pairs = (theirs, ours), (ours, theirs)
    try:
        if _replace_alike(texts) or not _is_apart([parsed(text)[0] for text in texts]):
            return ""
        agreed_texts = [
            merged_header(base, *pair, kind) if kind else merged_statement(base, *pair) for pair in pairs
        ]
    except ClashError:
        return ""
    one, other = (_meaning(text, kind) for text in agreed_texts)
    kept = [
        text
        for text in agreed_texts
        if kept_comments(base, ours, theirs, text) and not _restores(texts, text)
    ]
    # A space may be left where one side has none.
    return min(kept, key=lambda text: len(_ODD_SPACE.findall(text))) if kept and one == other else ""


def _replace_alike(texts: Sequence[str]) -> bool:
    """Return whether both sides remove the same word and do not put the same in its place."""
    base, ours, theirs = (Counter(word for word in words(text) if word not in _SIGNS) for text in texts)
    return bool((base - ours) & (base - theirs)) and ours - base != theirs - base


def _restores(texts: Sequence[str], result: str) -> bool:
    """Return whether a merge has a word more often than the side that removes it and the other one leave it."""
    base, ours, theirs, restored = (Counter(filter(_WORD.match, words(text))) for text in (*texts, result))
    return any(restored[word] > merged_count(base[word], ours[word], theirs[word]) for word in base)


def _is_apart(rows: Sequence[Sequence[Node]]) -> bool:
    """Return whether at most one side changes each row of words, whatever both do between brackets in it."""
    base, ours, theirs = ([node.key for node in row] for row in rows)
    if base not in (ours, theirs):
        return [node.code for node in rows[1]] == [node.code for node in rows[2]]
    if not base == ours == theirs:
        return not _calls_another(*(rows if base == theirs else (rows[0], rows[2], rows[1])))
    for index, groups in enumerate(zip(*rows, strict=True)):
        groups_elements = [group.elements for group in groups if isinstance(group, Group)]
        if len(groups_elements) == len(rows) and not (
            _add_apart(groups_elements, rows[0], index)
            and all(_is_apart([element.nodes for element in row]) for row in _aligned(groups_elements))
        ):
            return False
    return True


def _calls_another(base: Sequence[Node], changed: Sequence[Node], other: Sequence[Node]) -> bool:
    """Return whether a row calls another function where the other side passes other arguments, not other values."""
    keys = [[node.key for node in row] for row in (base, changed)]
    places = equal_positions(*keys)
    for index, groups in enumerate(zip(base, other, strict=True)):
        before, after = (_names(group.elements) if isinstance(group, Group) else None for group in groups)
        callee = keys[0][index - 1] if index else ""
        place = places.get(index)
        if (
            before != after
            and callee.isidentifier()
            and (place is None or keys[1][place - 1 :][:1] != [callee])
        ):
            return True
    return False


def _names(elements: Sequence[Element]) -> Counter[str]:
    return Counter(element.name for element in elements)


def _add_apart(versions: Sequence[Sequence[Element]], row: Sequence[Node], index: int) -> bool:
    """Return whether both may add to a group of a row: not to a returned tuple, nor a position and a name to a call."""
    base, *sides = (_names(version) for version in versions)
    one, other = (side - base for side in sides)
    if index and row[index - 1].key == "return" and one and other:
        return False
    is_call = form_of(row, index) is Form.CALL
    return not (is_call and any(a[""] and set(b) - {""} for a, b in ((one, other), (other, one))))


def _aligned(versions: Sequence[Sequence[Element]]) -> Iterator[tuple[Element, ...]]:
    """Yield the elements of three versions of a group that are at one place in as many others, or have one name."""
    named = [{element.name: element for element in version if element.name} for version in versions]
    plain = [[element for element in version if not element.name] for version in versions]
    if all(
        len(names) + len(rest) == len(row) for names, rest, row in zip(named, plain, versions, strict=True)
    ):
        yield from (tuple(names[name] for names in named) for name in set.intersection(*map(set, named)))
    else:  # Such as a dictionary that has a key twice.
        plain = list(map(list, versions))
    if len({len(row) for row in plain}) == 1:
        yield from zip(*plain, strict=True)


def _meaning(text: str, kind: str) -> str:
    """Return the meaning of a statement or header, whatever the order where that says nothing.

    That is of keywords, of the elements of sets, of the entries of dictionaries, and of ``__all__``.
    """
    tree = ast.parse(as_code(text, kind))
    # What is inside is sorted first.
    for node in reversed([*ast.walk(tree)]):
        if isinstance(node, ast.Call) and all(keyword.arg for keyword in node.keywords):
            node.keywords.sort(key=ast.dump)
        elif isinstance(node, ast.Dict) and None not in node.keys:
            pairs = sorted(
                zip(node.keys, node.values, strict=True), key=lambda pair: ast.dump(pair[0] or pair[1])
            )
            node.keys, node.values = [key for key, _ in pairs], [value for _, value in pairs]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            if isinstance(node.value, (ast.List, ast.Tuple)):
                node.value.elts.sort(key=ast.dump)
        elif isinstance(node, ast.Set):
            node.elts.sort(key=ast.dump)
    return dumped(tree)


def kept_comments(base: str, ours: str, theirs: str, result: str) -> bool:
    """Return whether a merge has each comment as often as both sides leave it, and they do not rewrite the same one.

    A comment that both add may stand above or behind something else in each.
    """
    b, o, t, r = (comments(text) for text in (base, ours, theirs, result))
    if (b - o) & (b - t) and o - b != t - b:
        return False
    return all(
        r[name] == merged_count(b[name], o[name], t[name])
        or (b[name] < min(o[name], t[name]) and r[name] == o[name] + t[name] - b[name])
        for name in {*b, *o, *t, *r}
    )


# ---- runs of imports ------------------------------------------------------------------------------------------------


def united_imports(base: str, ours: str, theirs: str) -> str:
    """Return the merge of three runs of imports, name by name; empty if they have anything else, or a comment."""
    texts = base, ours, theirs
    indent = next(
        (line[: len(line) - len(line.lstrip())] for text in texts for line in text.splitlines() if line), ""
    )
    try:
        rows = [outline(textwrap.dedent(text)) for text in texts]
    except NoOutlineError:
        return ""
    items = [item for row in rows for item in row.children]
    if any(map(comments, texts)) or not all(item.is_import for item in items):
        return ""
    names = [Counter(all_imported(row.children)) for row in rows]
    if any(number > 1 for count in names for number in count.values()):
        return ""
    own_names = [{bound(name) for name in count} for count in names]
    # The side that changes more gives the layout.
    like, other = (1, 2) if _changed(rows[0], rows[1]) >= _changed(rows[0], rows[2]) else (2, 1)
    removed, added = names[0] - names[other], names[other] - names[0] - names[like]
    lines = list(_without(rows[like], removed))
    for item in rows[other].children:
        wanted = [name for name in imported(item) if name in added]
        if wanted:
            _add(lines, wanted, item)
    result = textwrap.indent("".join(text for text, _ in lines), indent)
    expected = (names[like] - removed) + added
    imported_names = Counter(all_imported(outline(textwrap.dedent(result)).children))
    restored = ((own_names[0] - own_names[1]) | (own_names[0] - own_names[2])) & set(
        map(bound, imported_names)
    )
    return result if imported_names == expected and not restored else ""


def _changed(base: Item, side: Item) -> int:
    codes = Counter(item.own_dedented for item in base.children)
    return (Counter(item.own_dedented for item in side.children) - codes).total()


def _without(row: Item, removed: Counter[str]) -> Iterator[tuple[str, Item]]:
    for item in row.children:
        left = [name for name in imported(item) if name not in removed]
        if left == imported(item):
            yield item.text, item
        elif left:
            yield item.lead + import_of(left, item), item


def _add(lines: list[tuple[str, Item]], wanted: Sequence[str], item: Item) -> None:
    """Add names to the last statement that imports from the same module, or a statement at the end."""
    number = next((n for n in range(len(lines) - 1, -1, -1) if lines[n][1].name == item.name), None)
    if number is None or item.kind == "Import":
        lines.append((import_of(wanted, item), item))
        return
    imported_names = imported(outline(lines[number][0]).children[0])
    names = [*imported_names, *wanted]
    lines[number] = (
        lines[number][1].lead
        + import_of(sorted(names) if imported_names == sorted(imported_names) else names, lines[number][1]),
        lines[number][1],
    )
