"""``call-argument``: calls pass one more keyword argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods.kind import Kind
from patchkit.codemods.language import texts

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod


class CallArgument(Kind, frozen=True, kw_only=True, tag="call-argument", forbid_unknown_fields=True):
    """Give the calls that ``find`` matches one more keyword argument."""

    find: str | tuple[str, ...]
    argument: str
    already: tuple[str, ...] = ()
    every: bool = False

    writes: ClassVar[tuple[str, ...]] = ("argument",)

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds import calls

        find = texts.calls("find", *([self.find] if isinstance(self.find, str) else self.find))
        already = texts.calls("already", *self.already)
        with texts.naming("argument"):
            return calls.CallArgument(find, self.argument, already, self.every)
