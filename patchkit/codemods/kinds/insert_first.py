"""``insert-first``: statements open a function's body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.codemods.kind import Kind
from patchkit.codemods.language import texts

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod


class InsertFirst(Kind, frozen=True, kw_only=True, tag="insert-first", forbid_unknown_fields=True):
    """Open a function's body with ``code``."""

    code: str
    already: tuple[str, ...] = ()
    context: tuple[str, ...] = ()

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds.statements import Opening

        texts.require_bound("code", self.code, *self.context)
        signs = texts.signs("code", self.code) + texts.signs("already", *self.already)
        return Opening(self.code, signs, texts.patterns("context", *self.context))
