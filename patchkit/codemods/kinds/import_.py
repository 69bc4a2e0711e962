"""``import``: a module imports names; what it imports already stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import texts
from patchkit.codemods.language.imports import Import

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod


class ImportNames(Kind, frozen=True, kw_only=True, tag="import", forbid_unknown_fields=True):
    """Import a name into the module."""

    code: str

    looks_inside: ClassVar[bool] = False
    is_for_modules: ClassVar[bool] = True

    def codemod(self) -> Codemod:
        """Return the edit; ValueError if ``code`` is not one import of names."""
        with texts.naming("code"):
            return Import(self.code)

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "It stands among the imports from the same package, in their order.",
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
            "The name is imported, from wherever.",
            'code = "from shop.till import Coin"',
            before="from shop import Coin",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "What a star binds is not known.",
            'code = "from shop import *"',
            refusal="key `code`: not one import of names",
        ),
    )
