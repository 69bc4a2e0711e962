"""Merge three versions of a statement or header token by token, and element by element inside brackets."""

from __future__ import annotations

import enum
import keyword
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchkit.change.outline import dumped
from patchkit.change.pairing import equal_positions, ratio
from patchkit.change.tokens import ClashError, Element, Group, Node, Token, is_prose, parsed, words
from patchkit.tree.source import parsed_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_QUOTED = re.compile(r"([rRbBuUfF]{0,2})(\"{3}|'{3}|\"|')(.*)\2", re.DOTALL)
_PROSE_WORDS = re.compile(r"\s*(?:\{[^{}]*\}|\S)+|\s+")
_BEFORE_HEADERS = {"elif": "if a:\n    pass\n", "except": "try:\n    pass\n", "case": "match a:\n  "}
_BEHIND_HEADERS = {"Match": "    case _:\n        pass\n"}


def merged_statement(base: str, theirs: str, ours: str) -> str:
    """Merge statements. Raise ClashError if both versions change one part, or the result is invalid."""
    return _valid(merged(base, theirs, ours))


def merged_header(base: str, theirs: str, ours: str, kind: str) -> str:
    """Merge headers of a kind of item. Raise ClashError as for statements."""
    heads = [text.partition(" ") for text in (base, theirs, ours)]
    if not {head[0] for head in heads} <= {"if", "elif"}:
        return _valid(merged(base, theirs, ours), kind)
    # A branch's keyword is merged apart from its condition.
    keywords, _, conditions = zip(*heads, strict=True)
    keyword = keywords[2] if keywords[0] == keywords[1] else keywords[1]
    return _valid(f"{keyword} {merged(*conditions)}", kind)


def _valid(result: str, kind: str = "") -> str:
    """Return the text if it parses as a statement, or as a header of a ``kind``; else raise ClashError."""
    if parsed_or_none(as_code(result, kind)) is None:
        raise ClashError("merging both versions gives invalid Python")
    return result


def as_code(text: str, kind: str) -> str:
    """Return a statement, or a header of a ``kind`` of item, as code that can be parsed."""
    before, behind = _BEFORE_HEADERS.get(kind, ""), _BEHIND_HEADERS.get(kind, "    pass\n")
    return f"{before}{text.rstrip()}\n{behind}" if kind else text


def is_same_code(one: str, other: str, kind: str) -> bool:
    """Return whether two headers of a kind of item mean the same, whatever their layout and comments."""
    first, second = (parsed_or_none(as_code(text, kind)) for text in (one, other))
    return first is not None and second is not None and dumped(first) == dumped(second)


def merged(base: str, theirs: str, ours: str) -> str:
    """Return ``ours`` with the changes from ``base`` to ``theirs``; ClashError if both change the same part."""
    (b, _), (t, _), (o, end) = parsed(base), parsed(theirs), parsed(ours)
    row = _rows(b, t, o)
    # Its first word may have gone, and the next one brings the space that was between them.
    result = [_spaced(row[0], _space(o[0])), *row[1:]] if row and o else row
    return "".join(node.text for node in result) + end


def _rows(base: Sequence[Node], theirs: Sequence[Node], ours: Sequence[Node]) -> list[Node]:
    try:
        return _in_row(base, theirs, ours)
    except ClashError:
        row = _chained(base, theirs, ours)
        if row is None:
            raise
        return row


class Form(enum.Enum):
    """What brackets are."""

    SIGNATURE = enum.auto()
    CALL = enum.auto()
    OTHER = enum.auto()


_CHAINING = frozenset({"and", "or"})
_BEFORE_CHAINS = frozenset({"if", "elif", "while", "return", "assert", "="})
_NOT_IN_CHAINS = frozenset({"if", "else", "for", "lambda", ",", "=", ":", ":="})


def _chained(base: Sequence[Node], theirs: Sequence[Node], ours: Sequence[Node]) -> list[Node] | None:
    """Merge rows that are chains of one operator by their elements; None for other rows."""
    chains = [_chain(row) for row in (base, theirs, ours)]
    present = [chain for chain in chains if chain is not None]
    words = {chain.word for chain in present} - {""}
    ends = {(tuple(_code(chain.before)), tuple(_code(chain.behind))) for chain in present}
    if len(present) != len(chains) or len(words) != 1 or len(ends) != 1:
        return None
    (word,) = words
    b, t, o = (Group(Token("", "("), chain.elements, Token("", ")")) for chain in present)
    _require_no_variant(b, t, o)
    merged = _elements(b, t, o).elements
    if [element.code for element in merged] == [element.code for element in o.elements]:
        return list(ours)
    row: list[Node] = []
    for index, element in enumerate(merged):
        if index:
            row.append(Token(" ", word))
        first, *rest = element.nodes
        row += [first if index == 0 or "\n" in _space_of(element) else _spaced(first, " "), *rest]
    around = present[2].around or present[1].around
    if around is not None:
        (element,) = around.elements
        row[0] = _spaced(row[0], _space_of(element))
        row = [replace(around, elements=(replace(element, nodes=tuple(row)),))]
    return [*present[2].before, *row, *present[2].behind]


def _require_no_variant(base: Group, theirs: Group, ours: Group) -> None:
    """Raise ClashError if a condition that is added is in one that this tree alone has, or the other way round."""
    codes = {element.code for element in base.elements}
    added, own = (
        [element for element in group.elements if element.code not in codes] for group in (theirs, ours)
    )
    for element, other in (
        (element, other) for element in added for other in own if element.code != other.code
    ):
        one, two = (f" {' '.join(words(element.text))} " for element in (element, other))
        if one in two or two in one:
            raise ClashError(f"the change adds `{element.code}`, and this tree has `{other.code}`")


@dataclass(frozen=True)
class _Chain:
    before: Sequence[Node]
    word: str
    elements: tuple[Element, ...]
    behind: Sequence[Node]
    around: Group | None = None
    """The brackets around all of its elements."""


def _chain(row: Sequence[Node]) -> _Chain | None:
    """Return a row as a chain, which may have one element; None if it has several operators."""
    keys = [node.key for node in row]
    first = next((n for n, key in enumerate(keys) if key in _CHAINING | _BEFORE_CHAINS), 0)
    start = first + 1 if keys and keys[first] in _BEFORE_CHAINS else 0
    end = len(keys) - 1 if keys and keys[-1] == ":" else len(keys)
    inside = {key for key in keys[start:end] if key in _CHAINING | _NOT_IN_CHAINS}
    if len(inside) > 1 or not inside <= _CHAINING or start >= end:
        return None
    word = next(iter(inside), "")
    elements: list[Element] = []
    nodes: list[Node] = []
    for node in row[start:end]:
        if node.key == word and isinstance(node, Token):
            elements.append(Element(tuple(nodes), None))
            nodes = []
        else:
            nodes.append(node)
    chain = _Chain(row[:start], word, (*elements, Element(tuple(nodes))), row[end:]) if nodes else None
    around = nodes[0] if chain is not None and not word and len(nodes) == 1 else None
    if isinstance(around, Group) and around.key == "(" and len(around.elements) == 1:
        inner = None if around.elements[0].comma else _chain(around.elements[0].nodes)
        if inner is not None and inner.word and not (inner.before or inner.behind):
            return _Chain(row[:start], inner.word, inner.elements, row[end:], around)
    return chain


def _in_row(base: Sequence[Node], theirs: Sequence[Node], ours: Sequence[Node]) -> list[Node]:
    keys = [[node.key for node in row] for row in (base, theirs, ours)]
    to_theirs, to_ours = equal_positions(keys[0], keys[1]), equal_positions(keys[0], keys[2])
    places = [(n, to_theirs[n], to_ours[n]) for n in range(len(base)) if n in to_theirs and n in to_ours]
    nodes: list[Node] = []
    b = t = o = 0
    for b_end, t_end, o_end in (*places, (len(base), len(theirs), len(ours))):
        if t_end < t or o_end < o:
            continue
        nodes += _chunk(base[b:b_end], theirs[t:t_end], ours[o:o_end])
        if b_end < len(base):
            nodes.append(_node(base[b_end], theirs[t_end], ours[o_end], form_of(base, b_end)))
        b, t, o = b_end + 1, t_end + 1, o_end + 1
    return nodes


def form_of(row: Sequence[Node], index: int) -> Form:
    """Return what the brackets at a position are, as far as the order of their elements matters."""
    if index > 1 and row[index - 2].key == "def":
        return Form.SIGNATURE
    before = row[index - 1] if index else None
    is_called = isinstance(before, Group) or (
        before is not None and before.key.isidentifier() and not keyword.iskeyword(before.key)
    )
    is_class = index > 1 and row[index - 2].key == "class"
    return Form.CALL if is_called and not is_class and row[index].key == "(" else Form.OTHER


def _code(row: Sequence[Node]) -> list[str]:
    return [node.code for node in row]


def _chunk(base: Sequence[Node], theirs: Sequence[Node], ours: Sequence[Node]) -> Sequence[Node]:
    b, t, o = _code(base), _code(theirs), _code(ours)
    if t in (b, o):
        return ours
    if b == o:
        return theirs
    if len(base) == len(theirs) == len(ours) == 1:
        message = _message(base[0].code, theirs[0].code, ours[0].code)
        if message:
            return [Token(_space(ours[0]), message)]
    raise ClashError(
        f"`{' '.join(b)}` is `{' '.join(o)}` in this tree, and the change makes it `{' '.join(t)}`"
    )


def _message(base: str, theirs: str, ours: str) -> str:
    """Merge three strings of several words if an unchanged word separates the changes; else return None."""
    quoted = [_QUOTED.fullmatch(text) for text in (base, theirs, ours)]
    strings = [match for match in quoted if match is not None]
    forms = {match.group(1, 2) for match in strings}
    if len(strings) != len(quoted) or len(forms) != 1 or not all(map(is_prose, (base, theirs, ours))):
        return ""
    rows = ([Token("", word) for word in _PROSE_WORDS.findall(match[3])] for match in strings)
    ((prefix, quote),) = forms
    try:
        merged_words = "".join(node.text for node in _in_row(*rows))
    except ClashError:
        return ""
    return f"{prefix}{quote}{merged_words}{quote}"


def _node(base: Node, theirs: Node, ours: Node, form: Form) -> Node:
    if isinstance(base, Token) or isinstance(theirs, Token) or isinstance(ours, Token):
        return ours
    if theirs.code in (base.code, ours.code):
        return ours
    if base.code == ours.code and base.text.split() == ours.text.split():
        return replace(theirs, opening=replace(theirs.opening, space=ours.opening.space))
    if len(base.elements) == len(theirs.elements) == len(ours.elements) == 1:
        merged = _element(base.elements[0], theirs.elements[0], ours.elements[0])
        return replace(ours, elements=(merged,))
    return _elements(base, theirs, ours, form)


def _element(base: Element, theirs: Element, ours: Element) -> Element:
    """Merge three versions of an element; a comment behind it that ours removed stays away."""
    texts = [element.comment.strip() for element in (base, theirs, ours)]
    if texts[0] != texts[1] != texts[2] and texts[0] != texts[2] and texts[2]:
        raise ClashError(f"both change the comment of `{ours.code}`")
    comment = theirs.comment if texts[0] == texts[2] != texts[1] else ours.comment
    nodes = ours.nodes if theirs.code == base.code else tuple(_rows(base.nodes, theirs.nodes, ours.nodes))
    return replace(ours, nodes=nodes, comment=comment)


def _paired_elements(one: Sequence[Element], other: Sequence[Element]) -> dict[int, int]:
    """Return the pairs of elements of two groups: by name, by equal text, or as the only ones between two pairs."""
    pairs: dict[int, int] = {}
    names = {element.name: index for index, element in enumerate(other) if element.name}
    for index, element in enumerate(one):
        if element.name in names:
            pairs[index] = names[element.name]
    left = [index for index in range(len(one)) if index not in pairs]
    right = [index for index in range(len(other)) if index not in pairs.values()]
    codes = [one[position].code for position in left], [other[position].code for position in right]
    pairs |= {left[a]: right[b] for a, b in equal_positions(*codes).items()}
    for index in range(len(one)):
        before = pairs.get(index - 1, -1) if index else -1
        after = pairs.get(index + 1, len(other)) if index + 1 < len(one) else len(other)
        if (
            index not in pairs
            and (index == 0 or index - 1 in pairs)
            and after - before == 2
            and _alike(one[index], other[before + 1])
        ):
            pairs[index] = before + 1
    return pairs


def _alike(one: Element, other: Element) -> bool:
    if bool(one.name) is not bool(other.name):
        return False
    return ratio(words(one.text), words(other.text), 0.5) > 0.5


def _elements(base: Group, theirs: Group, ours: Group, form: Form = Form.OTHER) -> Group:
    b, t, o = base.elements, theirs.elements, ours.elements
    to_theirs, to_ours = _paired_elements(b, t), _paired_elements(b, o)
    from_theirs = {value: key for key, value in to_theirs.items()}
    result: list[Element | None] = list(o)
    for index, element in enumerate(b):
        our_index = to_ours.get(index)
        if index not in to_theirs:
            if our_index is None:
                continue
            if o[our_index].code != element.code:
                raise ClashError(
                    f"the change deletes `{element.code}`, which is `{o[our_index].code}` in this tree"
                )
            result[our_index] = None
        else:
            new = t[to_theirs[index]]
            if our_index is None:
                if new.code == element.code or any(other.code == new.code for other in o):
                    continue
                raise ClashError(
                    f"the change makes `{element.code}` `{new.code}`, and this tree has no `{element.code}`"
                )
            result[our_index] = _element(element, new, o[our_index])
    insertions: dict[int, list[Element]] = {}
    our_indices = {
        index: to_ours[from_theirs[index]] for index in from_theirs if from_theirs[index] in to_ours
    }
    own = {index: element for index, element in enumerate(o) if index not in to_ours.values()}
    places = {element.code: index for index, element in own.items()}
    named = {element.name: element.code for element in own.values() if element.name}
    # What both add has its place in this tree, and the rest is added around it.
    our_indices |= {
        index: places[element.code]
        for index, element in enumerate(t)
        if index not in from_theirs and element.code in places
    }
    for index, element in enumerate(t):
        if index in from_theirs or element.code in places:
            continue
        if element.name in named:
            raise ClashError(f"the change adds `{element.code}`, and this tree has `{named[element.name]}`")
        missing = (b[place] for left, place in from_theirs.items() if left < index and place not in to_ours)
        before = next((other.code for other in missing if not other.name), None)
        if form is Form.CALL and element.name in {None, "", "*"} and before is not None:
            raise ClashError(
                f"the change adds the argument `{element.code}` behind `{before}`, which this tree lacks"
            )
        insertions.setdefault(_insertion_index(index, t, our_indices, o, form), []).append(element)
    row = [
        element
        for index in range(len(o) + 1)
        for element in (*insertions.get(index, ()), *result[index : index + 1])
        if element
    ]
    return replace(ours, elements=tuple(_separated(row, ours, theirs)), closing=_closing(ours, theirs, row))


def _insertion_index(
    index: int,
    theirs: Sequence[Element],
    our_indices: dict[int, int],
    ours: Sequence[Element],
    form: Form,
) -> int:
    """Return the element before which a new one is inserted; ClashError if no position is valid."""
    left = next((n for n in range(index - 1, -1, -1) if n in our_indices), None)
    right = next((n for n in range(index + 1, len(theirs)) if n in our_indices), None)
    low = 0 if left is None else our_indices[left] + 1
    high = len(ours) if right is None else our_indices[right]
    between = ours[low:high]
    starred = [
        element for n, element in enumerate(ours) if element.name == "*" and n not in our_indices.values()
    ]
    if form is Form.CALL and starred and not theirs[index].name:
        raise ClashError(
            f"the change adds the argument `{theirs[index].code}`, and this tree has `{starred[0].code}`"
        )
    if not between:
        return low if left is not None or right is None else high
    is_signature = form is Form.SIGNATURE
    if theirs[index].name and is_signature:
        return low + next((n for n, element in enumerate(between) if element.code[:1] == "*"), len(between))
    if theirs[index].name:  # Positional elements keep their positions.
        return low + max((n + 1 for n, element in enumerate(between) if not element.name), default=0)
    own = next((element.code for element in between if not element.name), "")
    if form is Form.CALL and own:
        raise ClashError(f"the change adds the argument `{theirs[index].code}` where this tree has `{own}`")
    if right is None:  # This tree may have more elements before it.
        behind = next((n for n, element in enumerate(between) if element.is_keyword), len(between))
        if is_signature and behind < len(between):
            other = between[behind].code
            raise ClashError(f"the change adds `{theirs[index].code}`, which cannot follow `{other}`")
        return low + behind
    if left is None:
        return high
    return low if index - left <= right - index else high


def _separated(row: list[Element], ours: Group, theirs: Group) -> Iterator[Element]:
    comma = Token("", ",")
    is_last_with_comma = bool(
        (ours.elements or theirs.elements) and (ours.elements or theirs.elements)[-1].comma
    )
    is_single = len(row) == 1 and len(ours.elements) > 1 and ours.opening.code == "("
    line = ""
    for index, element in enumerate(row):
        first, *rest = element.nodes or (Token("", ""),)
        space = _space(first)
        if index and not space:
            first = _spaced(first, " ")
        elif (
            not index and space and "\n" not in space and not _space_of((ours.elements or theirs.elements)[0])
        ):
            first = _spaced(first, "")
        if index and row[index - 1].comment and "\n" not in space:
            first = _spaced(first, _line_behind(row[index - 1], line))
        line = f"\n{space.rpartition(chr(10))[2]}" if "\n" in space else line
        is_last = index == len(row) - 1
        wanted = (element.comma or comma) if not is_last or is_last_with_comma or is_single else None
        yield Element((first, *rest), wanted, element.comment)


def _line_behind(element: Element, line: str) -> str:
    """Return ``line``, the end of a line and an indentation, which code behind an element's comment needs."""
    if "\n" not in line:
        raise ClashError(f"code would be in the comment behind `{element.code}`")
    return line


def _space_of(element: Element) -> str:
    return _space(element.nodes[0]) if element.nodes else ""


def _space(node: Node) -> str:
    return node.space if isinstance(node, Token) else node.opening.space


def _spaced(node: Node, space: str) -> Node:
    if isinstance(node, Token):
        return replace(node, space=space)
    return replace(node, opening=replace(node.opening, space=space))


def _closing(ours: Group, theirs: Group, row: Sequence[Element]) -> Token:
    has_lines = any("\n" in _space_of(element) for element in row)
    is_wide = "\n" in ours.closing.space or not has_lines or "\n" not in theirs.closing.space
    closing = ours.closing if is_wide else theirs.closing
    if row and row[-1].comment:
        _line_behind(row[-1], closing.space)
    return closing
