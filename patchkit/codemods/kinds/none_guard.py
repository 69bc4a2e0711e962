"""``none-guard``: statements run only where a value is not None."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods.kind import Kind
from patchkit.codemods.language import texts

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod


class NoneGuard(Kind, frozen=True, kw_only=True, tag="none-guard", forbid_unknown_fields=True):
    """Run the statements that ``find`` matches only where ``value`` is not None."""

    find: str
    value: str
    already: tuple[str, ...] = ()

    writes: ClassVar[tuple[str, ...]] = ("value",)

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds.statements import Statements, Variant

        texts.require_bound("value", self.value, self.find)
        (find,) = texts.patterns("find", self.find)
        texts.patterns("value", self.value)
        guarded = f"if {self.value} is not None:\n    $$found\n"
        signs = texts.signs("value", texts.in_place(self.find, guarded)) + texts.signs(
            "already", *self.already
        )
        return Statements((Variant(find, guarded),), "replace", signs)
