"""``base-class``: add a base to a class."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import texts
from patchkit.codemods.language.comment import annotate
from patchkit.codemods.language.scope import base_names
from patchkit.codemods.language.template import render_expression

if TYPE_CHECKING:
    from patchkit.codemods.examination import Examination
    from patchkit.codemods.language.scope import Scope


class BaseClass(Kind, frozen=True, kw_only=True, tag="base-class", forbid_unknown_fields=True):
    """Add a base to the class, in front of its other bases."""

    base: str

    looks_inside: ClassVar[bool] = False
    is_of_headers: ClassVar[bool] = True
    writes: ClassVar[tuple[str, ...]] = ("base",)

    def check(self) -> None:
        """Raise ValueError if ``base`` is not one expression."""
        with texts.naming("base"):
            render_expression(self.base, {})

    def examine(self, scope: Scope, note: str) -> Examination:
        """Look for the base among those of the class."""
        node = scope.node
        if not isinstance(node, cst.ClassDef):
            return examination.absent(f"{scope.name or 'the module'} is not a class")
        if self.base.rsplit(".", 1)[-1] in base_names(node):
            return examination.present()
        bases = (cst.Arg(render_expression(self.base, {})), *node.bases)
        return examination.ready(lambda: scope.with_node(annotate(node.with_changes(bases=bases), note)))

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "It comes first, so that its methods take precedence.",
            'base = "Lending"',
            before="class Shelf(Box): ...",
            after="""
            # toy: so that it shows
            class Shelf(Lending, Box): ...
            """,
            scope="Shelf",
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The class has the base, whichever path it was imported by.",
            'base = "Lending"',
            before="class Shelf(Box, desk.Lending[int]): ...",
            scope="Shelf",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "Only a class has bases.",
            'base = "Lending"',
            before="def shelf(): ...",
            scope="shelf",
            refusal="shelf is not a class",
        ),
        Example("A base must be an expression.", 'base = "a b"', refusal="key `base`: not Python"),
    )
