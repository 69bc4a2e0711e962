"""``method``: add methods to a class; existing members with these names are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import texts
from patchkit.codemods.language.comment import annotate
from patchkit.codemods.language.definitions import bound_name, bound_names, definitions_like, insertion_index
from patchkit.codemods.language.names import bound_otherwise
from patchkit.codemods.language.placeholders import parse
from patchkit.codemods.language.statements import from_first_comment
from patchkit.codemods.language.template import render

if TYPE_CHECKING:
    from patchkit.codemods.examination import Examination
    from patchkit.codemods.language.scope import Scope


def _below_blank_line(node: cst.BaseStatement) -> cst.BaseStatement:
    """Return a method with its comments, below a blank line."""
    lines = from_first_comment(node.leading_lines)  # type: ignore[attr-defined]
    return node.with_changes(leading_lines=(cst.EmptyLine(indent=False), *lines))


class Method(Kind, frozen=True, kw_only=True, tag="method", forbid_unknown_fields=True):
    """Add methods to the class, after or before the members named ``behind`` and ``before``, or last."""

    code: str
    behind: str = ""
    before: str = ""

    looks_inside: ClassVar[bool] = False

    def check(self) -> None:
        """Raise ValueError if ``code`` contains anything but methods."""
        with texts.naming("code"):
            statements = render(self.code, {})
            if not statements or not all(isinstance(node, cst.FunctionDef) for node in statements):
                raise ValueError(f"not only methods: {self.code.strip()!r}")

    def examine(self, scope: Scope, note: str) -> Examination:
        """Look for the methods in the class body."""
        if not isinstance(scope.node, cst.ClassDef):
            return examination.absent(f"{scope.name or 'the module'} is not a class")
        bound, methods = bound_names(scope), parse(self.code).body
        if bound.issuperset(map(bound_name, methods)):
            return examination.present(form=definitions_like(scope, methods))
        missing = [node for node in render(self.code, {}) if bound_name(node) not in bound]
        taken = bound_otherwise(scope, filter(None, map(bound_name, missing)))
        if taken:
            return examination.ambiguous(f"{scope.name} has a {taken[0]} that is not a method")
        spaced = [annotate(_below_blank_line(node), note) for node in missing]
        index = insertion_index(scope, self.behind, self.before)
        body = scope.body
        return examination.ready(
            lambda: scope.with_body((*body[:index], *spaced, *(() if index is None else body[index:])))
        )

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "It goes last.",
            "code = '''\n@property\ndef is_empty(self) -> bool:\n    return not self.books\n'''",
            before="""
            class Shelf:
                rows = 5
            """,
            after="""
            class Shelf:
                rows = 5

                # toy: so that it shows
                @property
                def is_empty(self) -> bool:
                    return not self.books
            """,
            scope="Shelf",
        ),
        Example(
            "`behind` names the member that it follows.",
            'code = "def empty(self): ..."\nbehind = "fill"',
            before="""
            class Shelf:
                def fill(self): ...

                def close(self): ...
            """,
            after="""
            class Shelf:
                def fill(self): ...

                # toy: so that it shows
                def empty(self): ...

                def close(self): ...
            """,
            scope="Shelf",
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "An existing method of that name is kept.",
            'code = "def empty(self): self.books.clear()"',
            before="""
            class Shelf:
                def empty(self, reason):
                    log(reason)
            """,
            scope="Shelf",
        ),
        Example(
            "An existing attribute of that name is kept.",
            'code = "def empty(self): self.books.clear()"',
            before="""
            class Shelf:
                empty = clear
            """,
            scope="Shelf",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "The place must be a class.",
            'code = "def empty(self): ..."',
            before="def shelf(): ...",
            scope="shelf",
            refusal="shelf is not a class",
        ),
        Example("`code` must be a method.", 'code = "rows = 5"', refusal="key `code`: not only methods"),
    )
