"""``isinstance-member``: add a class to an ``isinstance`` test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind, several
from patchkit.codemods.language import sites, syntax, texts
from patchkit.codemods.language.layout import append
from patchkit.codemods.language.names import given_names, names_of
from patchkit.codemods.language.precedence import as_argument
from patchkit.codemods.language.scope import resolve
from patchkit.codemods.language.template import render_expression

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.codemods.examination import Codemod, Examination
    from patchkit.codemods.language.names import Value
    from patchkit.codemods.language.scope import Scope
    from patchkit.codemods.language.syntax import Path

_MEMBERS = (("args", 1), ("value", None))


class IsinstanceMember(Kind, frozen=True, kw_only=True, tag="isinstance-member", forbid_unknown_fields=True):
    """Add ``member`` to the ``isinstance`` test of ``subject`` that lists ``beside``, or one of several.

    ``type(x) in ...`` is such a test, too. A constant of the module or class stands for the classes that it lists.
    """

    subject: str
    beside: str | tuple[str, ...]
    member: str

    writes: ClassVar[tuple[str, ...]] = ("member",)

    @property
    def forms(self) -> tuple[tuple[str, str], ...]:
        """Each form of the site, with the code that belongs there."""
        test = f"isinstance({self.subject}, "
        return tuple(
            (f"{test}{known})", f"{test}({known}, {self.member}))") for known in several(self.beside)
        )

    def codemod(self) -> Codemod:
        """Return the edit. Raise ValueError if one of its keys is not an expression."""
        beside = [("beside", text) for text in several(self.beside)]
        for key, text in (("subject", self.subject), *beside, ("member", self.member)):
            with texts.naming(key):
                render_expression(text, {})
        return self

    def examine(self, scope: Scope, note: str) -> Examination:
        """Find the outermost test that lists ``beside``.

        A chain ``isinstance(x, A) or isinstance(x, B)`` becomes one test with a tuple.
        """
        subject, member = (render_expression(text, {}) for text in (self.subject, self.member))
        tested = _Subject.of(scope, subject)
        constants = _Constants.of(scope)
        places: list[tuple[Path, list[cst.BaseExpression], cst.BaseExpression]] = []
        doubtful: list[Path] = []
        done = beside_a_helper = False
        for path, node in syntax.descend(scope.node, scope.path):
            is_inside = any(path[: len(place[0])] == place[0] for place in places)
            if is_inside or not isinstance(node, cst.BaseExpression):
                continue
            parts = _alternatives(node)
            tests = [_isinstance(part) or (_type_in(part) if len(parts) == 1 else None) for part in parts]
            found = [test for test in tests if test is not None and tested.may_be(test[0])]
            if found and len(found) != len(tests):
                tested_names = {
                    name for test in found for each in test[1] for name in constants.named(each, path)
                }
                others = (part for part, test in zip(parts, tests, strict=True) if test not in found)
                beside_a_helper |= self.member in tested_names and all(
                    _calls_with(each, tested) for each in others
                )
            if not found or len(found) != len(tests):
                continue
            members = [each for test in found for each in test[1]]
            names = {name for each in members for name in constants.named(each, path)}
            if not names.intersection(several(self.beside)):
                continue
            states = {tested.is_subject(test[0], path) for test in found}
            if states == {True}:
                done |= self.member in names
                places.append((path, members, found[0][0]))
            elif False not in states:
                doubtful.append(path)
        if not places and beside_a_helper:
            return examination.present()
        if not places and doubtful:
            lines = ", ".join(f"`{sites.line_of(scope, path)}`" for path in doubtful)
            return examination.ambiguous(
                f"expected a test of `{self.subject}`, but what is tested may hold something else: {lines}"
            )
        if not places:
            wanted = f"isinstance({self.subject}, {' or '.join(several(self.beside))})"
            return examination.absent(lambda: f"expected `{wanted}`; {sites.nearest(scope, wanted)}")
        if len(places) > 1:
            return examination.ambiguous(sites.several(scope, [path for path, *_ in places]))
        if done:
            return examination.present()
        path, members, found_subject = places[0]

        def rewrite() -> cst.Module:
            old = syntax.node_at(scope.module, path)
            if isinstance(old, cst.Comparison):
                return sites.replace_expression(scope.module, path, _with_type(old, member), note)
            listed = old.args[1].value if isinstance(old, cst.Call) else None
            if isinstance(listed, cst.Tuple) and listed.lpar:
                changed = syntax.replace_at(old, _MEMBERS, _with_member(listed, member))
                test = syntax.typed(changed, cst.Call)
            else:
                elements = [cst.Element(as_argument(each)) for each in (*members, member)]
                args = [cst.Arg(found_subject), cst.Arg(cst.Tuple(elements))]
                test = cst.Call(cst.Name("isinstance"), args)
            return sites.replace_expression(scope.module, path, test, note)

        return examination.ready(rewrite)

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "One class becomes a tuple.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="""
            if isinstance(item, shop.Book):
                lend(item)
            """,
            after="""
            # toy: so that it shows
            if isinstance(item, (shop.Book, Map)):
                lend(item)
            """,
        ),
        Example(
            "A chain becomes one test.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="fine = isinstance(item, Book) or isinstance(item, Film)",
            after="""
            # toy: so that it shows
            fine = isinstance(item, (Book, Film, Map))
            """,
        ),
        Example(
            "A local that holds the subject counts as the subject.",
            'subject = "desk.item"\nbeside = "Book"\nmember = "Map"',
            before="""
            item = desk.item
            fine = isinstance(item, (Book, Film))
            """,
            after="""
            item = desk.item
            # toy: so that it shows
            fine = isinstance(item, (Book, Film, Map))
            """,
        ),
        Example(
            "A constant is not changed, since other code may read it.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="""
            FLAT = (Book, Film)

            fine = isinstance(item, FLAT)
            """,
            after="""
            FLAT = (Book, Film)

            # toy: so that it shows
            fine = isinstance(item, (FLAT, Map))
            """,
        ),
        Example(
            "A test of the exact class counts, too.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="fine = type(item) in (Book, Film)",
            after="""
            # toy: so that it shows
            fine = type(item) in (Book, Film, Map)
            """,
        ),
        Example(
            "An exact test may use a constant, too.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="""
            FLAT = frozenset({Book, Film})

            fine = type(item) in FLAT
            """,
            after="""
            FLAT = frozenset({Book, Film})

            # toy: so that it shows
            fine = type(item) in (*FLAT, Map)
            """,
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The test accepts the class already.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="fine = isinstance(item, Book | Map)",
        ),
        Example(
            "The test is combined with a helper's about the same subject.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="fine = is_flat(item) or isinstance(item, Map)",
        ),
        Example(
            "A constant lists the class already.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="""
            FLAT = (Book, Map)

            fine = isinstance(item, (FLAT, Film))
            """,
        ),
        Example(
            "A test of the exact class accepts it already.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="fine = type(item) in {Book, Map}",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "A local that may hold something else is ambiguous.",
            'subject = "desk.item"\nbeside = "Book"\nmember = "Map"',
            before="""
            item = desk.item
            item = desk.next
            fine = isinstance(item, Book)
            """,
            refusal="may hold something else: `fine = isinstance(item, Book)`",
        ),
        Example(
            "A local that a loop binds, too, is ambiguous.",
            'subject = "desk.item"\nbeside = "Book"\nmember = "Map"',
            before="""
            item = desk.item
            for item in desk.others:
                fine = isinstance(item, Book)
            """,
            refusal="may hold something else",
        ),
        Example(
            "A test combined with an unrelated condition is no match.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="odd = desk.is_full or isinstance(item, Map)",
            refusal="expected `isinstance(item, Book)`",
        ),
        Example(
            "A constant that is bound twice does not match.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="""
            FLAT = (Film,)
            FLAT = (Book,)

            fine = isinstance(item, FLAT)
            """,
            refusal="expected `isinstance(item, Book)`",
        ),
        Example(
            "A test with `not in` does not match.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="odd = type(item) not in (Book, Film)",
            refusal="expected `isinstance(item, Book)`",
        ),
        Example(
            "A test of another subject does not match.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="fine = isinstance(other, Book)",
            refusal="expected `isinstance(item, Book)`",
        ),
        Example(
            "A member must be an expression.",
            'subject = "item"\nbeside = "Book"\nmember = "a b"',
            refusal="key `member`: not Python",
        ),
    )


@dataclass(frozen=True)
class _Subject:
    """The subject of a test, and the names that a scope assigns it to."""

    scope: Scope
    subject: cst.BaseExpression
    given: frozenset[str]

    @classmethod
    def of(cls, scope: Scope, subject: cst.BaseExpression) -> _Subject:
        """Return the subject with the names that the scope assigns it to."""
        given: set[str] = set()
        for _, node in syntax.descend(scope.node, scope.path):
            if isinstance(node, cst.Assign):
                targets: Iterable[cst.BaseExpression] = [each.target for each in node.targets]
            elif isinstance(node, cst.AnnAssign | cst.NamedExpr):
                targets = [node.target]
            else:
                continue
            if node.value is not None and syntax.same(node.value, subject):
                given |= {each.value for each in targets if isinstance(each, cst.Name)}
        return cls(scope, subject, frozenset(given))

    def may_be(self, node: cst.BaseExpression) -> bool:
        """Return whether an expression is written as the subject or as a name that holds it."""
        return syntax.same(node, self.subject) or (isinstance(node, cst.Name) and node.value in self.given)

    def is_subject(self, node: cst.BaseExpression, path: Path) -> bool | None:
        """Return whether an expression at a place is the subject; None if it may be."""
        if syntax.same(node, self.subject):
            return not self._is_another(path)
        names = names_of(self.scope.module)
        values = names.values(path, syntax.typed(node, cst.Name).value)
        assigned = [each for each in values if each is not None and syntax.same(each.node, self.subject)]
        assigned = [each for each in assigned if not self._is_another(each.path)]
        if not assigned:
            return False
        roots = (names.values(assigned[0].path, root) for root in self._roots)
        return True if len(assigned) == len(values) and all(len(each) <= 1 for each in roots) else None

    def _is_another(self, path: Path) -> bool:
        """Return whether a name of the subject is a different variable at a place than in the scope itself."""
        enclosing = (
            syntax.node_at(self.scope.module, path[:cut])
            for cut in range(len(self.scope.path) + 1, len(path))
        )
        if not any(
            isinstance(each, cst.ClassDef | cst.FunctionDef | cst.Lambda | cst.BaseComp) for each in enclosing
        ):
            return False
        names = names_of(self.scope.module)
        return any(names.means_another(path, root, self.scope) for root in self._roots)

    @property
    def _roots(self) -> list[str]:
        """The variables in the subject."""
        return [
            each.value
            for path, each in syntax.descend(self.subject)
            if isinstance(each, cst.Name) and not (path and path[-1][0] in {"attr", "keyword"})
        ]


def _isinstance(node: cst.CSTNode) -> tuple[cst.BaseExpression, list[cst.BaseExpression]] | None:
    """Return subject and members of an ``isinstance`` call."""
    if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and len(node.args) == 2):
        return None
    if node.func.value != "isinstance":
        return None
    second = node.args[1].value
    if isinstance(second, cst.Tuple):
        return node.args[0].value, [element.value for element in second.elements]
    return node.args[0].value, _union_members(second)


def _calls_with(node: cst.BaseExpression, tested: _Subject) -> bool:
    """Return whether an expression calls something with the subject as an argument."""
    calls = (each for _, each in syntax.descend(node, ()) if isinstance(each, cst.Call))
    return any(tested.may_be(given.value) for call in calls for given in call.args)


def _type_in(node: cst.CSTNode) -> tuple[cst.BaseExpression, list[cst.BaseExpression]] | None:
    """Return subject and members of ``type(subject) in members``."""
    if not (isinstance(node, cst.Comparison) and len(node.comparisons) == 1):
        return None
    compared, (comparison,) = node.left, node.comparisons
    if not (
        isinstance(compared, cst.Call) and len(compared.args) == 1 and isinstance(comparison.operator, cst.In)
    ):
        return None
    if not (isinstance(compared.func, cst.Name) and compared.func.value == "type"):
        return None
    return compared.args[0].value, [comparison.comparator]


@dataclass(frozen=True)
class _Constants:
    """The constants that list classes: names bound once, wherever they are read."""

    scope: Scope
    given: frozenset[str]

    @classmethod
    def of(cls, scope: Scope) -> _Constants:
        """Return the constants of the scope's module."""
        return cls(scope, given_names(scope.module))

    def named(self, node: cst.BaseExpression, path: Path) -> set[str]:
        """Return the last names of the classes that a member of a test stands for at a place."""
        return self._named(node, path, frozenset())

    def _named(self, node: cst.BaseExpression, path: Path, seen: frozenset[Path]) -> set[str]:
        if isinstance(node, cst.Tuple | cst.List | cst.Set):
            return {name for each in node.elements for name in self._named(each.value, path, seen)}
        if isinstance(node, cst.Call) and len(node.args) == 1:
            return self._named(node.args[0].value, path, seen)
        united = _union_members(node)
        if len(united) > 1:
            return {name for each in united for name in self._named(each, path, seen)}
        value = self._value(node, path)
        if value is not None and value.path not in seen:
            return self._named(value.node, value.path, seen | {value.path})
        return {syntax.code_of(node).rsplit(".", 1)[-1]}

    def _value(self, node: cst.BaseExpression, path: Path) -> Value | None:
        """Return the only expression that a name, or ``self.NAME``, is bound to; None otherwise."""
        module = self.scope.module
        if isinstance(node, cst.Name) and node.value in self.given:
            values = names_of(module).values(path, node.value)
            return values[0] if len(values) == 1 else None
        if not (isinstance(node, cst.Attribute) and syntax.code_of(node.value) == "self"):
            return None
        name, owner = node.attr.value, self.scope.name.rpartition(".")[0]
        classes = resolve(module, owner) if owner and name in self.given else []
        if len(classes) != 1 or not isinstance(classes[0].node, cst.ClassDef) or not classes[0].body:
            return None
        values = names_of(module).own_values(classes[0], name)
        targets = (each for _, each in syntax.descend(classes[0].node) if isinstance(each, cst.AssignTarget))
        is_set = any(syntax.same(each.target, node) for each in targets)
        return values[0] if len(values) == 1 and not is_set else None


def _with_type(test: cst.Comparison, member: cst.BaseExpression) -> cst.Comparison:
    """Return ``type(x) in ...`` with one more member."""
    (comparison,) = test.comparisons
    listed = comparison.comparator
    if isinstance(listed, cst.Tuple) and listed.lpar:
        changed: cst.BaseExpression = _with_member(listed, member)
    elif isinstance(listed, cst.List | cst.Set):
        elements = [syntax.typed(each, cst.Element) for each in listed.elements]
        changed = listed.with_changes(elements=[*elements, cst.Element(as_argument(member))])
    else:
        changed = cst.Tuple([cst.StarredElement(as_argument(listed)), cst.Element(as_argument(member))])
    return test.with_changes(comparisons=[comparison.with_changes(comparator=changed)])


def _union_members(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the members of a union such as ``A | B``."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
        return [*_union_members(node.left), *_union_members(node.right)]
    return [node]


def _alternatives(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.Or):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    return [node]


def _with_member(listed: cst.Tuple, member: cst.BaseExpression) -> cst.Tuple:
    opening, closing = listed.lpar[-1], listed.rpar[0]
    elements, space = append(
        [syntax.typed(each, cst.Element) for each in listed.elements],
        cst.Element(member),
        opening.whitespace_after,
        closing.whitespace_before,
    )
    rpar = [closing.with_changes(whitespace_before=space), *listed.rpar[1:]]
    return listed.with_changes(elements=elements, rpar=rpar)
