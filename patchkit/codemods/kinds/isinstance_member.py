"""``isinstance-member``: a test of what class something is of accepts one more class."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import libcst as cst

    from patchkit.codemods.examination import Codemod, Examination
    from patchkit.codemods.language.scope import Scope
    from patchkit.codemods.language.syntax import Path

_MEMBERS = (("args", 1), ("value", None))


class IsinstanceMember(Kind, frozen=True, kw_only=True, tag="isinstance-member", forbid_unknown_fields=True):
    """Add ``member`` to the ``isinstance`` test of ``subject`` that has ``beside``, or one of several.

    ``type(x) in ...`` is such a test too, and a constant of the module or of the class stands for what it lists.
    """

    subject: str
    beside: str | tuple[str, ...]
    member: str

    writes: ClassVar[tuple[str, ...]] = ("member",)

    @property
    def ways(self) -> tuple[tuple[str, str], ...]:
        """Each way in which a site may look, with what belongs there."""
        test = f"isinstance({self.subject}, "
        return tuple(
            (f"{test}{known})", f"{test}({known}, {self.member}))") for known in texts.several(self.beside)
        )

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
        constants = _constants(scope)
        places: list[tuple[Path, list[cst.BaseExpression], cst.BaseExpression]] = []
        done = beside_a_helper = False
        for path, node in syntax.descend(scope.node, scope.path):
            is_inside = any(path[: len(place[0])] == place[0] for place in places)
            if is_inside or not isinstance(node, cst.BaseExpression):
                continue
            parts = _alternatives(node)
            tests = [_isinstance(part) or (_type_in(part) if len(parts) == 1 else None) for part in parts]
            found = [
                test
                for test in tests
                if test is not None and any(syntax.same(test[0], each) for each in subjects)
            ]
            if found and len(found) != len(tests):
                asked = {name for test in found for each in test[1] for name in _named(each, constants)}
                others = (part for part, test in zip(parts, tests, strict=True) if test not in found)
                beside_a_helper |= self.member in asked and all(_asks(each, subjects) for each in others)
            if not found or len(found) != len(tests):
                continue
            members = [each for test in found for each in test[1]]
            names = {name for each in members for name in _named(each, constants)}
            if names.intersection(texts.several(self.beside)):
                done |= self.member in names
                places.append((path, members, found[0][0]))
        if not places and beside_a_helper:
            return examination.present()
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
        Example(
            "A constant stays as it is for those who share it.",
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
            "A test of the very class is one too.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="fine = type(item) in (Book, Film)",
            after="""
            # toy: so that it shows
            fine = type(item) in (Book, Film, Map)
            """,
        ),
        Example(
            "So it is with a constant.",
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
            "The class is accepted.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="fine = isinstance(item, Book | Map)",
        ),
        Example(
            "It is asked for beside a helper, which is asked about the same.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="fine = is_flat(item) or isinstance(item, Map)",
        ),
        Example(
            "A constant accepts it.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="""
            FLAT = (Book, Map)

            fine = isinstance(item, (FLAT, Film))
            """,
        ),
        Example(
            "The very class is accepted.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="fine = type(item) in {Book, Map}",
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
            "Beside a question about something else it is no list.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="odd = desk.is_full or isinstance(item, Map)",
            refusal="expected `isinstance(item, Book)`",
        ),
        Example(
            "What a name lists that is bound twice, nobody knows.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="""
            FLAT = (Film,)
            FLAT = (Book,)

            fine = isinstance(item, FLAT)
            """,
            refusal="expected `isinstance(item, Book)`",
        ),
        Example(
            "What is not in the list is another question.",
            'subject = "item"\nbeside = "Book"\nmember = "Map"',
            before="odd = type(item) not in (Book, Film)",
            refusal="expected `isinstance(item, Book)`",
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


def _asks(node: cst.BaseExpression, subjects: Sequence[cst.BaseExpression]) -> bool:
    """Tell whether an expression calls something with one of the subjects."""
    import libcst as cst

    from patchkit.codemods.language import syntax

    calls = (each for _, each in syntax.descend(node, ()) if isinstance(each, cst.Call))
    return any(syntax.same(given.value, each) for call in calls for given in call.args for each in subjects)


def _type_in(node: cst.CSTNode) -> tuple[cst.BaseExpression, list[cst.BaseExpression]] | None:
    """Return subject and members of ``type(subject) in members``."""
    import libcst as cst

    if not (isinstance(node, cst.Comparison) and len(node.comparisons) == 1):
        return None
    told, (among,) = node.left, node.comparisons
    if not (isinstance(told, cst.Call) and len(told.args) == 1 and isinstance(among.operator, cst.In)):
        return None
    if not (isinstance(told.func, cst.Name) and told.func.value == "type"):
        return None
    return told.args[0].value, [among.comparator]


def _constants(scope: Scope) -> dict[str, cst.BaseExpression]:
    """Return what the module's names stand for, and those of the scope's class as ``self.NAME``, if bound once."""
    import libcst as cst

    from patchkit.codemods.language import syntax
    from patchkit.codemods.language.scope import resolve

    owner = scope.name.rpartition(".")[0]
    blocks: list[tuple[str, Sequence[cst.CSTNode]]] = [("", scope.module.body)]
    blocks += [("self.", each.body) for each in resolve(scope.module, owner) if owner]
    found: dict[str, list[cst.BaseExpression]] = {}
    for prefix, block in blocks:
        lines = (each for line in block if isinstance(line, cst.SimpleStatementLine) for each in line.body)
        for line in lines:
            if isinstance(line, cst.Assign):
                for target in line.targets:
                    found.setdefault(f"{prefix}{syntax.code_of(target.target)}", []).append(line.value)
            elif isinstance(line, cst.AnnAssign) and line.value is not None:
                found.setdefault(f"{prefix}{syntax.code_of(line.target)}", []).append(line.value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _named(node: cst.BaseExpression, constants: Mapping[str, cst.BaseExpression]) -> set[str]:
    """Return the last names of the classes that a member of a test stands for."""
    import libcst as cst

    from patchkit.codemods.language import syntax

    if isinstance(node, cst.Tuple | cst.List | cst.Set):
        return {name for each in node.elements for name in _named(each.value, constants)}
    if isinstance(node, cst.Call) and len(node.args) == 1:
        return _named(node.args[0].value, constants)
    united = _united(node)
    if len(united) > 1:
        return {name for each in united for name in _named(each, constants)}
    said = syntax.code_of(node)
    if said in constants:
        rest = {name: value for name, value in constants.items() if name != said}
        return _named(constants[said], rest)
    return {said.rsplit(".", 1)[-1]}


def _with_type(test: cst.Comparison, member: cst.BaseExpression) -> cst.Comparison:
    """Return ``type(x) in ...`` with one member more."""
    import libcst as cst

    from patchkit.codemods.language import syntax
    from patchkit.codemods.language.precedence import as_argument

    (among,) = test.comparisons
    listed = among.comparator
    if isinstance(listed, cst.Tuple) and listed.lpar:
        changed: cst.BaseExpression = _with_member(listed, member)
    elif isinstance(listed, cst.List | cst.Set):
        elements = [syntax.typed(each, cst.Element) for each in listed.elements]
        changed = listed.with_changes(elements=[*elements, cst.Element(as_argument(member))])
    else:
        changed = cst.Tuple([cst.StarredElement(as_argument(listed)), cst.Element(as_argument(member))])
    return test.with_changes(comparisons=[among.with_changes(comparator=changed)])


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
