"""``method``: a class gets a method."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods.kind import Kind
from patchkit.codemods.language import texts

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod


class Method(Kind, frozen=True, kw_only=True, tag="method", forbid_unknown_fields=True):
    """Give the class a method."""

    code: str

    looks_inside: ClassVar[bool] = False

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds import definitions

        with texts.naming("code"):
            return definitions.Method(self.code)
