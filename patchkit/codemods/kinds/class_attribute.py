"""``class-attribute``: a class gets an attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods.kind import Kind
from patchkit.codemods.language import texts

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod


class ClassAttribute(Kind, frozen=True, kw_only=True, tag="class-attribute", forbid_unknown_fields=True):
    """Give the class a class attribute."""

    code: str

    looks_inside: ClassVar[bool] = False

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds import definitions

        with texts.naming("code"):
            return definitions.ClassAttribute(self.code)
