"""``module-code``: a module gets a definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods.kind import Kind
from patchkit.codemods.language import texts

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod


class ModuleCode(Kind, frozen=True, kw_only=True, tag="module-code", forbid_unknown_fields=True):
    """Give the module a definition."""

    code: str

    looks_inside: ClassVar[bool] = False
    is_for_modules: ClassVar[bool] = True

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds import definitions

        with texts.naming("code"):
            return definitions.ModuleCode(self.code)
