"""``base-class``: a class gets one more base."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods.kind import Kind
from patchkit.codemods.language import texts

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod


class BaseClass(Kind, frozen=True, kw_only=True, tag="base-class", forbid_unknown_fields=True):
    """Give the class one more base."""

    base: str

    looks_inside: ClassVar[bool] = False
    writes: ClassVar[tuple[str, ...]] = ("base",)

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds import definitions

        with texts.naming("base"):
            return definitions.Base(self.base)
