"""``import``: a module imports a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods.kind import Kind
from patchkit.codemods.language import texts

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod


class ImportName(Kind, frozen=True, kw_only=True, tag="import", forbid_unknown_fields=True):
    """Import a name into the module."""

    code: str

    looks_inside: ClassVar[bool] = False
    is_for_modules: ClassVar[bool] = True

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds import definitions

        with texts.naming("code"):
            return definitions.Import(self.code)
