"""``parameter``: a function gets one more parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods.kind import Kind
from patchkit.codemods.language import texts

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod


class Parameter(Kind, frozen=True, kw_only=True, tag="parameter", forbid_unknown_fields=True):
    """Give the function one more parameter."""

    code: str

    looks_inside: ClassVar[bool] = False

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds import definitions

        with texts.naming("code"):
            return definitions.Parameter(self.code)
