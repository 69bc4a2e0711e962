"""``module-code``: add definitions and assignments to a module; existing ones are kept."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import texts
from patchkit.codemods.language.comment import annotate
from patchkit.codemods.language.definitions import bound_name, bound_names, definitions_like, insertion_index
from patchkit.codemods.language.imports import after_imports
from patchkit.codemods.language.names import bound_otherwise, imported_names
from patchkit.codemods.language.placeholders import parse
from patchkit.codemods.language.template import below_blank_lines, render

if TYPE_CHECKING:
    from patchkit.codemods.examination import Examination
    from patchkit.codemods.language.scope import Scope


class ModuleCode(Kind, frozen=True, kw_only=True, tag="module-code", forbid_unknown_fields=True):
    """Add definitions to the module, after or before those named ``behind`` and ``before``, or below the imports."""

    code: str
    behind: str = ""
    before: str = ""

    looks_inside: ClassVar[bool] = False
    is_for_modules: ClassVar[bool] = True

    def check(self) -> None:
        """Raise ValueError if ``code`` contains anything but definitions and assignments."""
        with texts.naming("code"):
            statements = render(self.code, {})
            if not statements or not all(map(bound_name, statements)):
                raise ValueError(f"not only definitions and assignments: {self.code.strip()!r}")

    def examine(self, scope: Scope, note: str) -> Examination:
        """Look for the names that the code binds."""
        bound, statements = bound_names(scope) | imported_names(scope.module), parse(self.code).body
        if bound.issuperset(map(bound_name, statements)):
            return examination.present(form=definitions_like(scope, statements))
        missing = [statement for statement in render(self.code, {}) if bound_name(statement) not in bound]
        taken = bound_otherwise(scope, filter(None, map(bound_name, missing)))
        if taken:
            return examination.ambiguous(f"the module binds {taken[0]} to something else")

        place = insertion_index(scope, self.behind, self.before)

        def rewrite() -> cst.Module:
            if place is not None:
                first, *others = [
                    statement
                    for statement in below_blank_lines(self.code, render(self.code, {}))
                    if bound_name(statement) not in bound
                ]
                below = scope.body[place:]
                return scope.with_body((*scope.body[:place], annotate(first, note), *others, *below))
            index = after_imports(scope.module)
            above, below = scope.body[:index], scope.body[index:]
            blank = cst.EmptyLine(indent=False)
            first = annotate(
                _with_blank_lines(missing[0].with_changes(leading_lines=(blank,)), missing[0]), note
            )
            spaced = [
                _with_blank_lines(statement, last, statement)
                for last, statement in pairwise([*missing, *below[:1]])
            ]
            return scope.with_body((*above, first, *spaced, *below[1:]))

        return examination.ready(rewrite)

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "It goes below the imports.",
            'code = "RATE = 0.1"',
            before="""
            import shop

            class Shelf: ...
            """,
            after="""
            import shop

            # toy: so that it shows
            RATE = 0.1


            class Shelf: ...
            """,
        ),
        Example(
            "`behind` names the definition that it follows.",
            'code = "LIMIT = 3"\nbehind = "RATE"',
            before="""
            RATE = 0.1
            DAYS = 14
            """,
            after="""
            RATE = 0.1
            # toy: so that it shows
            LIMIT = 3
            DAYS = 14
            """,
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example("An existing definition is kept.", 'code = "RATE = 0.1"', before="RATE = 0.2"),
        Example("An imported name is kept.", 'code = "RATE = 0.1"', before="from shop import RATE"),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "A call binds no name that identifies it.",
            'code = "start()"',
            refusal="key `code`: not only definitions",
        ),
    )


def _with_blank_lines(statement: cst.BaseStatement, *neighbours: cst.BaseStatement) -> cst.BaseStatement:
    """Return a statement of a module, below two blank lines if it or a neighbour is a definition."""
    lead = statement.leading_lines  # type: ignore[attr-defined]
    blank = next((index for index, line in enumerate(lead) if line.comment is not None), len(lead))
    is_wide = any(isinstance(neighbour, (cst.FunctionDef, cst.ClassDef)) for neighbour in neighbours)
    more = (cst.EmptyLine(indent=False),) * (2 - blank if is_wide else 0)
    return statement.with_changes(leading_lines=[*more, *lead])
