"""``isinstance-member``: an ``isinstance`` test accepts one more class."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import texts

if TYPE_CHECKING:
    import libcst as cst

    from patchkit.codemods.examination import Codemod, Examination
    from patchkit.codemods.language.scope import Scope
    from patchkit.codemods.language.syntax import Path

_MEMBERS = (("args", 1), ("value", None))


class IsinstanceMember(Kind, frozen=True, kw_only=True, tag="isinstance-member", forbid_unknown_fields=True):
    """Add ``member`` to the ``isinstance`` test of ``subject`` that has ``beside``, or one of several."""

    subject: str
    beside: str | tuple[str, ...]
    member: str

    writes: ClassVar[tuple[str, ...]] = ("member",)

    def codemod(self) -> Codemod:
        """Return the edit; ValueError if one of its keys is no expression."""
        from patchkit.codemods.language.template import render_expression

        beside = [("beside", text) for text in texts.several(self.beside)]
        for key, text in (("subject", self.subject), *beside, ("member", self.member)):
            with texts.naming(key):
                render_expression(text, {})
        return self

    def examine(self, scope: Scope, note: str) -> Examination:
        """Find the outermost test that has ``beside`` among its members.

        A chain ``isinstance(x, A) or isinstance(x, B)`` becomes one test with a tuple.
        """
        import libcst as cst

        from patchkit.codemods.language import sites, syntax
        from patchkit.codemods.language.precedence import as_argument
        from patchkit.codemods.language.template import render_expression

        subject, member = (render_expression(text, {}) for text in (self.subject, self.member))
        subjects = [subject, *_locals_that_hold(scope, subject)]
        places: list[tuple[Path, list[cst.BaseExpression], cst.BaseExpression]] = []
        done = False
        for path, node in syntax.descend(scope.node, scope.path):
            is_inside = any(path[: len(place[0])] == place[0] for place in places)
            if is_inside or not isinstance(node, cst.BaseExpression):
                continue
            tests = [_isinstance(part) for part in _alternatives(node)]
            found = [
                test
                for test in tests
                if test is not None and any(syntax.same(test[0], each) for each in subjects)
            ]
            if not found or len(found) != len(tests):
                continue
            members = [each for test in found for each in test[1]]
            names = {syntax.code_of(each).rsplit(".", 1)[-1] for each in members}
            if names.intersection(texts.several(self.beside)):
                done |= self.member in names
                places.append((path, members, found[0][0]))
        if not places:
            wanted = f"isinstance({self.subject}, {' or '.join(texts.several(self.beside))})"
            return examination.absent(lambda: f"expected `{wanted}`; {sites.nearest(scope, wanted)}")
        if len(places) > 1:
            return examination.ambiguous(sites.several(scope, [path for path, *_ in places]))
        if done:
            return examination.present()
        path, members, found_subject = places[0]

        def rewrite() -> cst.Module:
            old = syntax.node_at(scope.module, path)
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
            "A local that holds the subject counts as it.",
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
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The class is accepted.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="fine = isinstance(item, Book | Map)",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "A local that may hold something else is not it either.",
            'subject = "desk.item"\nbeside = "Book"\nmember = "Map"',
            before="""
            item = desk.item
            item = desk.next
            fine = isinstance(item, Book)
            """,
            refusal="expected `isinstance(desk.item, Book)`",
        ),
        Example(
            "A test of something else is not it.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="fine = isinstance(other, Book)",
            refusal="expected `isinstance(item, Book)`",
        ),
        Example(
            "A member is an expression.",
            'subject = "item"\nbeside = "Book"\nmember = "a b"',
            refusal="key `member`: not Python",
        ),
    )


def _locals_that_hold(scope: Scope, subject: cst.BaseExpression) -> list[cst.Name]:
    """Return the names that a scope assigns nothing but the subject."""
    import libcst as cst

    from patchkit.codemods.language import syntax

    given: dict[str, list[cst.BaseExpression]] = {}
    for _, node in syntax.descend(scope.node, scope.path):
        if isinstance(node, cst.Assign):
            for target in node.targets:
                if isinstance(target.target, cst.Name):
                    given.setdefault(target.target.value, []).append(node.value)
    return [
        cst.Name(name)
        for name, values in given.items()
        if all(syntax.same(value, subject) for value in values)
    ]


def _isinstance(node: cst.CSTNode) -> tuple[cst.BaseExpression, list[cst.BaseExpression]] | None:
    """Return subject and members of an ``isinstance`` call."""
    import libcst as cst

    if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and len(node.args) == 2):
        return None
    if node.func.value != "isinstance":
        return None
    second = node.args[1].value
    if isinstance(second, cst.Tuple):
        return node.args[0].value, [element.value for element in second.elements]
    return node.args[0].value, _united(second)


def _united(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the members of a union such as ``A | B``."""
    import libcst as cst

    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
        return [*_united(node.left), *_united(node.right)]
    return [node]


def _alternatives(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    import libcst as cst

    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.Or):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    return [node]


def _with_member(listed: cst.Tuple, member: cst.BaseExpression) -> cst.Tuple:
    import libcst as cst

    from patchkit.codemods.language import syntax
    from patchkit.codemods.language.layout import append

    opening, closing = listed.lpar[-1], listed.rpar[0]
    elements, space = append(
        [syntax.typed(each, cst.Element) for each in listed.elements],
        cst.Element(member),
        opening.whitespace_after,
        closing.whitespace_before,
    )
    rpar = [closing.with_changes(whitespace_before=space), *listed.rpar[1:]]
    return listed.with_changes(elements=elements, rpar=rpar)
