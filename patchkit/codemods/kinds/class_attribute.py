"""``class-attribute``: add an attribute to a class; a different value that the class has is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import syntax, texts
from patchkit.codemods.language.comment import annotate
from patchkit.codemods.language.definitions import assigned, insertion_index
from patchkit.codemods.language.names import bound_otherwise
from patchkit.codemods.language.scope import base_names, members
from patchkit.codemods.language.template import below_blank_lines, render

if TYPE_CHECKING:
    from patchkit.codemods.examination import Examination
    from patchkit.codemods.language.scope import Scope


class ClassAttribute(Kind, frozen=True, kw_only=True, tag="class-attribute", forbid_unknown_fields=True):
    """Add a class attribute; in a dataclass, a field goes after the existing fields.

    With ``behind`` or ``before`` it goes next to what the class binds by that name, which a field without a value
    requires.
    """

    code: str
    behind: str = ""
    before: str = ""

    looks_inside: ClassVar[bool] = False

    def check(self) -> None:
        """Raise ValueError if ``code`` is not one assignment to a name."""
        with texts.naming("code"):
            self._assignment()

    def _assignment(self) -> tuple[cst.BaseStatement, str, cst.BaseExpression | None]:
        statements = render(self.code, {})
        pair = assigned(statements[0]) if len(statements) == 1 else None
        if pair is None or (pair[1] is None and not (self.behind or self.before)):
            raise ValueError(f"not one assignment to a name: {self.code.strip()!r}")
        return statements[0], pair[0], pair[1]

    def examine(self, scope: Scope, note: str) -> Examination:
        """Look for the attribute in the class body."""
        node = scope.node
        if not isinstance(node, cst.ClassDef):
            return examination.absent(f"{scope.name or 'the module'} is not a class")
        statement, name, value = self._assignment()
        if any(member.name.value == name for _, member in members(scope)):
            return examination.present(f"{scope.name} has its own {name}, which is kept")
        for existing in scope.body:
            pair = assigned(existing)
            if pair is not None and pair[0] == name:
                if value is None:
                    return examination.present()
                if pair[1] is not None and syntax.same(pair[1], value):
                    return examination.present()
                existing_code = syntax.code_of(existing.with_changes(leading_lines=())).strip()
                if pair[1] is None:
                    return examination.ambiguous(
                        f"{scope.name} has `{existing_code}`, expected `{self.code.strip()}`"
                    )
                return examination.present(f"{scope.name} has its own `{existing_code}`, which is kept")
        if bound_otherwise(scope, [name]):
            return examination.ambiguous(f"{scope.name} binds {name} in more than one way")
        place = insertion_index(scope, self.behind, self.before)
        if value is None and place is None:
            return examination.absent(f"expected {self.behind or self.before} in {scope.name}")
        if place is not None:
            added = annotate(below_blank_lines(self.code, [statement])[0], note)
            body = scope.body
            return examination.ready(lambda: scope.with_body((*body[:place], added, *body[place:])))
        top = 1 if node.get_docstring() is not None else 0
        index = _place(node, scope.body, statement) or top

        def rewrite() -> cst.Module:
            body = scope.body
            blank = (cst.EmptyLine(indent=False),)
            is_first = index == top
            lead = blank if index and is_first else ()
            fresh = annotate(statement.with_changes(leading_lines=lead), note)
            rest = body[index:]
            if is_first and rest and not rest[0].leading_lines:  # type: ignore[attr-defined]
                rest = (rest[0].with_changes(leading_lines=blank), *rest[1:])
            return scope.with_body((*body[:index], fresh, *rest))

        return examination.ready(rewrite)

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "It goes first, below the docstring.",
            'code = "lends: bool = True"',
            before='''
            class Shelf:
                """Where books stand."""

                rows = 5
            ''',
            after='''
            class Shelf:
                """Where books stand."""

                # toy: so that it shows
                lends: bool = True

                rows = 5
            ''',
            scope="Shelf",
        ),
        Example(
            "A field of a dataclass goes after the others: before one without a default the module would not import.",
            'code = "lends: bool = True"',
            before="""
            @dataclass
            class Shelf:
                rows: int
                depth: int = 1

                def empty(self): ...
            """,
            after="""
            @dataclass
            class Shelf:
                rows: int
                depth: int = 1
                # toy: so that it shows
                lends: bool = True

                def empty(self): ...
            """,
            scope="Shelf",
        ),
        Example(
            "In a dataclass, an attribute that is not a field goes first, too.",
            'code = "lends = True"',
            before="""
            @dataclasses.dataclass(frozen=True)
            class Shelf:
                rows: int
            """,
            after="""
            @dataclasses.dataclass(frozen=True)
            class Shelf:
                # toy: so that it shows
                lends = True

                rows: int
            """,
            scope="Shelf",
        ),
        Example(
            "`behind` names the attribute that it follows; a field without a value needs it.",
            'code = "depth: int"\nbehind = "rows"',
            before="""
            @dataclass
            class Shelf:
                rows: int
                name: str = ""
            """,
            after="""
            @dataclass
            class Shelf:
                rows: int
                # toy: so that it shows
                depth: int
                name: str = ""
            """,
            scope="Shelf",
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The class has the attribute, annotated or not.",
            'code = "lends: bool = True"',
            before="""
            class Shelf:
                lends = True
            """,
            scope="Shelf",
        ),
        Example(
            "A different value is kept.",
            'code = "lends = True"',
            before="""
            class Shelf:
                lends = False
            """,
            scope="Shelf",
            refusal="Shelf has its own `lends = False`, which is kept",
        ),
        Example(
            "A property of that name is kept.",
            'code = "lends = True"',
            before="""
            class Shelf:
                @property
                def lends(self): ...
            """,
            scope="Shelf",
            refusal="Shelf has its own lends, which is kept",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "An annotation without a value does not count.",
            'code = "lends = True"',
            before="""
            class Shelf:
                lends: bool
            """,
            scope="Shelf",
            refusal="Shelf has `lends: bool`, expected `lends = True`",
        ),
        Example(
            "Only a class has class attributes.",
            'code = "lends = True"',
            before="def shelf(): ...",
            scope="shelf",
            refusal="shelf is not a class",
        ),
        Example(
            "`code` must be one assignment.", 'code = "a = b = 1"', refusal="key `code`: not one assignment"
        ),
    )


def _place(node: cst.ClassDef, body: tuple[cst.BaseStatement, ...], statement: cst.BaseStatement) -> int:
    """Return the index after the fields if the attribute is a field, 0 if it goes to the top."""
    fields = [index for index, statement in enumerate(body) if _is_field(statement)]
    return fields[-1] + 1 if fields and _is_field(statement) and _has_fields(node) else 0


def _is_field(statement: cst.BaseStatement) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.AnnAssign)


def _has_fields(node: cst.ClassDef) -> bool:
    """Return whether annotated names are parameters of the class's constructor, in their order."""
    calls = (decorator.decorator for decorator in node.decorators)
    names = {syntax.code_of(call.func if isinstance(call, cst.Call) else call) for call in calls}
    decorated = any(name.rsplit(".", 1)[-1] == "dataclass" for name in names)
    return decorated or bool({"NamedTuple", "Struct", "BaseModel"} & set(base_names(node)))
