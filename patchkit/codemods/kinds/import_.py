"""``import``: import names into a module; existing imports are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import texts
from patchkit.codemods.language.imports import Import

if TYPE_CHECKING:
    from patchkit.codemods.examination import Examination
    from patchkit.codemods.language.scope import Scope


class ImportNames(Kind, frozen=True, kw_only=True, tag="import", forbid_unknown_fields=True):
    """Import a name into the module."""

    code: str

    looks_inside: ClassVar[bool] = False
    is_for_modules: ClassVar[bool] = True

    def check(self) -> None:
        """Raise ValueError if ``code`` is not one import of names."""
        with texts.naming("code"):
            Import(self.code)

    def examine(self, scope: Scope, note: str) -> Examination:
        """Look for the names among the module's imports."""
        del note  # An import needs no comment.
        need = Import(self.code)
        if not need.missing(scope.module):
            return examination.present()
        taken = need.hidden_in(scope)
        if taken:
            return examination.ambiguous(f"the module binds {taken[0]}, but not by an import")
        return examination.ready(lambda: need.add(scope.module))

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "It goes among the imports from the same package, in sorted order.",
            'code = "from shop.till import Coin"',
            before="""
            import os

            from shop.desk import Desk
            from shop.wall import Wall
            """,
            after="""
            import os

            from shop.desk import Desk
            from shop.till import Coin
            from shop.wall import Wall
            """,
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The name is imported already, from any module.",
            'code = "from shop.till import Coin"',
            before="from shop import Coin",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "The names that a star binds are unknown.",
            'code = "from shop import *"',
            refusal="key `code`: not one import of names",
        ),
    )
