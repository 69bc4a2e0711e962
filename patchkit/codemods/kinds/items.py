"""``items``: replace, add or remove arguments, elements, imported names, operands or parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import sites, syntax, texts
from patchkit.codemods.language.comment import lost
from patchkit.codemods.language.layout import append, with_argument
from patchkit.codemods.language.placeholders import as_written, lone_expression
from patchkit.codemods.language.precedence import as_operand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.codemods.examination import Codemod, Examination
    from patchkit.codemods.language.scope import Scope
    from patchkit.codemods.language.syntax import Path

Lists = Literal["arguments", "elements", "names", "operands", "parameters"]
_LOOSE = (cst.BooleanOperation, cst.IfExp, cst.Lambda, cst.NamedExpr)
_FIELDS = {"arguments": "args", "elements": "elements", "names": "names"}


class _List(NamedTuple):
    """The items of a list, their node, and its field."""

    path: Path
    node: cst.CSTNode
    field: str
    items: tuple[cst.CSTNode, ...]


class _Place(NamedTuple):
    """Items ``start`` to ``end`` of a list, and the number of their neighbours found."""

    score: int
    owner: _List
    start: int
    end: int


class Items(Kind, frozen=True, kw_only=True, tag="items", forbid_unknown_fields=True):
    """Put the items ``code`` in place of the items ``find`` of a list, between ``behind`` and ``before``.

    ``list`` is the kind of list: the arguments of a call, the elements of a list, tuple, set or dict, the names of an
    import, the operands of `and` or `or`, or the parameters of the function itself. ``of`` is the called function, the
    module that names are imported from, or the name that a list is assigned to. Without ``find`` the items are added,
    without ``code`` they are removed. If several places match, the one with the most neighbours is used.
    """

    list: Lists
    find: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    behind: str = ""
    before: str = ""
    of: str = ""

    def codemod(self) -> Codemod:
        """Return the edit. Raise ValueError that names the malformed key."""
        if self.find == self.code:
            raise ValueError("key `code`: equal to `find`, so nothing changes")
        if not self.find and not (self.behind or self.before or self._is_unordered):
            raise ValueError("key `behind`: without `find`, it or `before` must identify the place")
        for key in ("find", "code"):
            for text in getattr(self, key):
                self._item(key, text)
        self._neighbours()
        return self

    @property
    def written(self) -> tuple[str, ...]:
        """The items to add, as code."""
        return (
            self.code if self.list in {"elements", "operands"} else tuple(f"f({code})" for code in self.code)
        )

    @property
    def forms(self) -> tuple[tuple[str, str], ...]:
        """None, since the place alone identifies the site."""
        return ()

    @property
    def _is_unordered(self) -> bool:
        """Whether the order of the items has no meaning, so that neither neighbour has to be present."""
        if self.list == "arguments":
            items = [self._item("code", text) for text in (*self.find, *self.code)]
            return bool(self.of) and all(isinstance(each, cst.Arg) and each.keyword for each in items)
        return self.list == "names" and bool(self.of)

    def _neighbours(self) -> tuple[cst.CSTNode | None, cst.CSTNode | None]:
        above, below = (
            self._item(key, getattr(self, key)) if getattr(self, key) else None
            for key in ("behind", "before")
        )
        return above, below

    def _item(self, key: str, text: str) -> cst.CSTNode:
        with texts.naming(key):
            found = _read(self.list, text)
        if len(found) != 1:
            raise ValueError(f"key `{key}`: not one of {self.list}: {text!r}")
        return found[0]

    def examine(self, scope: Scope, note: str) -> Examination:
        """Look for the items to remove, for those to add, and for their neighbours."""
        old_items = [self._item("find", text) for text in self.find]
        new_items = [self._item("code", text) for text in self.code]
        above, below = self._neighbours()
        lists = [each for each in _lists(scope, self.list) if self._is_of(scope, each)]

        def score(owner: _List, start: int, end: int) -> int:
            item_above = owner.items[start - 1] if start else None
            item_below = owner.items[end] if end < len(owner.items) else None
            return _same(above, item_above) + _same(below, item_below)

        def runs(wanted: Sequence[cst.CSTNode]) -> list[_Place]:
            return [
                _Place(score(each, at, at + len(wanted)), each, at, at + len(wanted))
                for each in lists
                for at in range(len(each.items) - len(wanted) + 1)
                if all(map(_same, wanted, each.items[at : at + len(wanted)]))
            ]

        def is_bare(owner: _List, at: int) -> bool:
            matches_above = (
                _same(above, owner.items[at - 1]) if above is not None and at else above is None and not at
            )
            end = at == len(owner.items)
            matches_below = below is None if end else _same(below, owner.items[at])
            return matches_above and matches_below

        def gaps(*, is_whole: bool) -> list[_Place]:
            return [
                _Place(found, each, at, at)
                for each in lists
                for at in range(len(each.items) + 1)
                if (found := score(each, at, at)) and (not is_whole or is_bare(each, at))
            ]

        old = runs(old_items) if old_items else gaps(is_whole=False)
        new = runs(new_items) if new_items else gaps(is_whole=True)
        if not (new_items or new or old) and len(lists) == 1 and self._is_unordered:
            new = [_Place(0, lists[0], 0, 0)]
        if not old_items:
            old = _behind(old, above)
            if not old and self._is_unordered and len(lists) == 1:
                old = [_Place(0, lists[0], len(lists[0].items), len(lists[0].items))]
        before, after = (max((place.score for place in places), default=-1) for places in (old, new))
        if after >= 0 and (after > before or (after == before and not (old_items and new_items))):
            return examination.present()
        first = [place for place in old if place.score == before]
        if not first:
            quoted = next(filter(None, (*self.find, self.behind, self.before, self.of)), "")
            return examination.absent(f"expected `{quoted}` among the {self.list}, which is not there")
        if len(first) > 1 or after == before:
            return examination.ambiguous(sites.several(scope, [place.owner.path for place in first]))
        try:
            made = _rewritten(scope, first[0], new_items, note)
        except cst.CSTValidationError:
            text = next(iter((*self.find, *self.code)))
            return examination.absent(f"with `{text}` changed, the {self.list} would not be valid Python")
        return examination.ready(lambda: made)

    def _is_of(self, scope: Scope, owner: _List) -> bool:
        if not self.of:
            return True
        if isinstance(owner.node, cst.ImportFrom):
            return _source(owner.node) == self.of
        if isinstance(owner.node, cst.Call):
            return syntax.code_of(owner.node.func) == self.of
        outer = syntax.node_at(scope.module, owner.path[:-1])
        targets = [each.target for each in outer.targets] if isinstance(outer, cst.Assign) else []
        targets += [outer.target] if isinstance(outer, cst.AnnAssign) else []
        return any(syntax.code_of(each) == self.of for each in targets)

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "An argument is added between two others.",
            'list = "arguments"\ncode = ["days=14"]\nbehind = "book"\nbefore = "to=reader"\nof = "lend"',
            before="lend(book, to=reader)",
            after="""
            # toy: so that it shows
            lend(book, days=14, to=reader)
            """,
        ),
        Example(
            "An operand is replaced by two others.",
            'list = "operands"\nfind = ["late"]\ncode = ["late > 3", "days"]\nbefore = "not forgiven"',
            before="""
            if late and not forgiven:
                charge(days)
            """,
            after="""
            # toy: so that it shows
            if late > 3 and days and not forgiven:
                charge(days)
            """,
        ),
        Example(
            "An imported name is removed.",
            'list = "names"\nfind = ["Till"]\nof = "shop"',
            before="from shop import Desk, Till",
            after="""
            # toy: so that it shows
            from shop import Desk
            """,
        ),
        Example(
            "A parameter is removed.",
            'list = "parameters"\nfind = ["to=None"]\nbehind = "book"',
            before="def lend(book, to=None, **options): ...",
            after="""
            # toy: so that it shows
            def lend(book, **options): ...
            """,
            scope="lend",
        ),
        Example(
            "With `of`, the list that is assigned to that name is changed.",
            'list = "elements"\ncode = ["\'b\'"]\nbehind = "\'a\'"\nof = "shelves"',
            before="""
            rooms = ['a']
            shelves = ['a', 'c']
            """,
            after="""
            rooms = ['a']
            # toy: so that it shows
            shelves = ['a', 'b', 'c']
            """,
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The argument is present.",
            'list = "arguments"\ncode = ["days=14"]\nbehind = "book"\nof = "lend"',
            before="lend(book, days=14)",
        ),
        Example(
            "The name is absent.",
            'list = "names"\nfind = ["Till"]\nbehind = "Desk"\nof = "shop"',
            before="from shop import Desk",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "Two places that match equally well are ambiguous.",
            'list = "arguments"\nfind = ["1"]\ncode = ["2"]\nof = "lend"',
            before="""
            lend(1)
            lend(1, book)
            """,
            refusal="several places match, expected one: `lend(1)`, `lend(1, book)`",
        ),
        Example(
            "The item to replace must be present.",
            'list = "arguments"\nfind = ["1"]\ncode = ["2"]\nof = "lend"',
            before="lend(3)",
            refusal="expected `1` among the arguments, which is not there",
        ),
        Example(
            "Each text must be one item.",
            'list = "arguments"\ncode = ["1, 2"]\nbehind = "3"',
            refusal="key `code`: not one",
        ),
        Example(
            "Without `find`, a neighbour is required.",
            'list = "arguments"\ncode = ["1"]',
            refusal="key `behind`: without `find`",
        ),
    )


def _same(wanted: cst.CSTNode | None, node: cst.CSTNode | None) -> bool:
    return wanted is not None and node is not None and syntax.same(wanted, node)


def _behind(places: Sequence[_Place], above: cst.CSTNode | None) -> list[_Place]:
    """Return the gaps with the most neighbours; if the two neighbours are apart, the gap after the first one."""
    best = [each for each in places if each.score == max(other.score for other in places)]
    behind = [each for each in best if each.start and _same(above, each.owner.items[each.start - 1])]
    return behind if len(behind) == 1 else best


def _read(of: Lists, text: str) -> Sequence[cst.CSTNode]:
    """Return the items in a text."""
    if of == "names":
        line = syntax.typed(as_written(f"from m import {text}").body[0], cst.SimpleStatementLine)
        names = syntax.typed(line.body[0], cst.ImportFrom).names
        return () if isinstance(names, cst.ImportStar) else names
    if of == "parameters":
        params = syntax.typed(as_written(f"def f({text}): ...").body[0], cst.FunctionDef).params
        stars = [each for each in (params.star_arg, params.star_kwarg) if isinstance(each, cst.Param)]
        return () if stars else (*params.params, *params.kwonly_params)
    forms = {"arguments": ("f({})",), "elements": ("[{}]", "{{{}}}"), "operands": ("({})",)}[of]
    for form in forms:
        try:
            value = lone_expression(as_written(form.format(text)).body[0])
        except ValueError:
            continue
        if of == "operands" and isinstance(value, cst.BaseExpression):
            return (value.with_changes(lpar=value.lpar[1:], rpar=value.rpar[:-1]),)
        if isinstance(value, (cst.Call, cst.List, cst.Dict)):
            return value.args if isinstance(value, cst.Call) else value.elements
    raise ValueError(f"not Python: {text!r}")


def _lists(scope: Scope, of: Lists) -> Iterator[_List]:
    """Yield the lists of a scope, outermost first."""
    if of == "parameters":
        node = scope.node
        if isinstance(node, cst.FunctionDef):
            for field in ("params", "kwonly_params"):
                path = (*scope.path, ("params", None))
                yield _List(path, node.params, field, tuple(getattr(node.params, field)))
        return
    passed: set[int] = set()
    for path, node in syntax.descend(scope.node, scope.path):
        if of == "operands":
            if isinstance(node, cst.BooleanOperation) and id(node) not in passed:
                operands, inner = _operands(node)
                passed |= {id(each) for each in inner}
                yield _List(path, node, "", operands)
        elif (
            (of == "arguments" and isinstance(node, cst.Call))
            or (of == "elements" and isinstance(node, (cst.List, cst.Tuple, cst.Set, cst.Dict)))
            or (
                of == "names"
                and isinstance(node, cst.ImportFrom)
                and not isinstance(node.names, cst.ImportStar)
            )
        ):
            yield _List(path, node, _FIELDS[of], tuple(getattr(node, _FIELDS[of])))


def _operands(
    node: cst.BooleanOperation,
) -> tuple[tuple[cst.BaseExpression, ...], list[cst.BooleanOperation]]:
    """Return the operands of a chain of one operator, and its operations."""
    inner = [node]
    operands = [node.right]
    while (
        isinstance(node.left, cst.BooleanOperation)
        and type(node.left.operator) is type(node.operator)
        and not node.left.lpar
    ):
        node = node.left
        inner.append(node)
        operands.append(node.right)
    return (node.left, *operands[::-1]), inner


def _source(node: cst.ImportFrom) -> str:
    return "." * len(node.relative) + (syntax.code_of(node.module) if node.module is not None else "")


def _rewritten(scope: Scope, place: _Place, new_items: Sequence[cst.CSTNode], note: str) -> cst.Module:
    owner, module = place.owner, scope.module
    if isinstance(owner.node, cst.BooleanOperation):
        new: cst.CSTNode = _rebuilt(owner.node, place, new_items)
    else:
        new = _with_new_items(place, new_items)
    changed = syntax.replaced(module, owner.path, new)
    return sites.noted(changed, owner.path, lost([owner.node], [new]), note)


def _rebuilt(
    node: cst.BooleanOperation, place: _Place, new_items: Sequence[cst.CSTNode]
) -> cst.BaseExpression:
    operands, inner = _operands(node)
    operators = [each.operator for each in inner[::-1]]
    fresh = [
        as_operand(each) if isinstance(each, _LOOSE) else each
        for each in map(syntax.as_expression, new_items)
    ]
    operands_after = [*operands[: place.start], *fresh, *operands[place.end :]]
    shared = min(len(fresh), place.end - place.start)
    cut = max(place.start + shared - 1, 0)
    surplus = place.end - place.start - shared
    added = [type(node.operator)()] * (len(fresh) - shared)
    operators_after = [*operators[:cut], *added, *operators[cut + surplus :]]
    made = operands_after[0]
    for operator, operand in zip(operators_after, operands_after[1:], strict=True):
        made = cst.BooleanOperation(made, operator, operand)
    return made.with_changes(lpar=[*node.lpar, *made.lpar], rpar=[*made.rpar, *node.rpar])


def _with_new_items(place: _Place, new_items: Sequence[cst.CSTNode]) -> cst.CSTNode:
    """Return the node with its items replaced; each new item gets the comma and white space of the old one."""
    node, field, items = place.owner.node, place.owner.field, [*place.owner.items]
    shared = min(len(new_items), place.end - place.start)
    for at, fresh in enumerate(new_items[:shared], place.start):
        items[at] = _with_end(fresh, items[at])
    at = place.start + shared
    if at < place.end:
        old_items, rest = items[at : place.end], items[place.end :]
        items = [*items[:at], *rest]
        if not rest and items:
            items[-1] = _with_end(items[-1], old_items[-1])
    made = node.with_changes(**{field: items})
    for fresh in new_items[shared:]:
        if at == len(items):
            made = _appended(made, field, items, fresh)
            items = [*getattr(made, field)]
        else:
            model = getattr(items[max(at - 1, 0)], "comma", None)
            after = model.whitespace_after if isinstance(model, cst.Comma) else cst.SimpleWhitespace(" ")
            if isinstance(after, cst.ParenthesizedWhitespace):
                after = cst.ParenthesizedWhitespace(indent=after.indent, last_line=after.last_line)
            items.insert(at, fresh.with_changes(comma=cst.Comma(whitespace_after=after)))
            made = made.with_changes(**{field: items})
        at += 1
    return made


def _appended(node: cst.CSTNode, field: str, items: Sequence[cst.CSTNode], fresh: cst.CSTNode) -> cst.CSTNode:
    """Return the node with one more item at the end."""
    if isinstance(node, cst.Call):
        return with_argument(node, syntax.typed(fresh, cst.Arg))
    empty = cst.SimpleWhitespace("")
    if isinstance(node, cst.Parameters):
        existing: list[Any] = [*items]
        closing = existing[-1].whitespace_after_param if existing else empty
        if existing:
            existing[-1] = existing[-1].with_changes(whitespace_after_param=empty)
        extended, end = append(existing, fresh, empty, closing)
        return node.with_changes(
            **{field: [*extended[:-1], extended[-1].with_changes(whitespace_after_param=end)]}
        )
    brackets = next(((one, other) for one, other in _BRACKETS if getattr(node, one, None)), None)
    if brackets is None:
        return node.with_changes(**{field: append([*items], fresh, empty, empty)[0]})  # type: ignore[type-var]
    left, right = (getattr(node, name) for name in brackets)
    first = left[0] if isinstance(left, (list, tuple)) else left
    last = right[-1] if isinstance(right, (list, tuple)) else right
    extended, end = append([*items], fresh, first.whitespace_after, last.whitespace_before)  # type: ignore[type-var]
    last = last.with_changes(whitespace_before=end)
    closed = [*right[:-1], last] if isinstance(right, (list, tuple)) else last
    return node.with_changes(**{field: extended, brackets[1]: closed})


_BRACKETS = (("lbracket", "rbracket"), ("lbrace", "rbrace"), ("lpar", "rpar"))


def _with_end(item: cst.CSTNode, other: cst.CSTNode) -> cst.CSTNode:
    """Return an item with the comma and white space after another."""
    names = ("comma", "whitespace_after_arg", "whitespace_after_param")
    return item.with_changes(**{name: getattr(other, name) for name in names if hasattr(other, name)})
