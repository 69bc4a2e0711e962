"""``insert-after``: statements are put behind others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.codemods.language.variants import StatementKind, Variant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.codemods.examination import Codemod


class InsertAfter(StatementKind, frozen=True, kw_only=True, tag="insert-after", forbid_unknown_fields=True):
    """Put statements behind those that ``find`` matches."""

    variants: tuple[Variant, ...] = ()

    @property
    def pairs(self) -> Sequence[Variant]:
        """Every ``find`` with its ``code``, the edit's own first."""
        own = Variant(find=self.find, code=self.code)
        return (own, *self.variants) if self.find or not self.variants else self.variants

    def codemod(self) -> Codemod:
        """Build the codemod."""
        return self.build("after")
