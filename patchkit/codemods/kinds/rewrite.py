"""``rewrite``: statements or an expression are replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.codemods.language.variants import StatementKind, TargetVariant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.codemods.examination import Codemod


class Rewrite(StatementKind, frozen=True, kw_only=True, tag="rewrite", forbid_unknown_fields=True):
    """Replace the statements or the expression that ``find`` matches."""

    target: str = ""
    variants: tuple[TargetVariant, ...] = ()
    every: bool = False

    @property
    def pairs(self) -> Sequence[TargetVariant]:
        """Every ``find`` with its ``code``, the edit's own first."""
        own = TargetVariant(find=self.find, code=self.code, target=self.target)
        return (own, *self.variants) if self.find or not self.variants else self.variants

    def codemod(self) -> Codemod:
        """Build the codemod."""
        return self.build("replace", every=self.every)
