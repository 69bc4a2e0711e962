"""``isinstance-member``: an ``isinstance`` test accepts one more class."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods.kind import Kind
from patchkit.codemods.language import texts

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod


class IsinstanceMember(Kind, frozen=True, kw_only=True, tag="isinstance-member", forbid_unknown_fields=True):
    """Add ``member`` to the ``isinstance`` test of ``subject`` that has ``beside``."""

    subject: str
    beside: str
    member: str

    writes: ClassVar[tuple[str, ...]] = ("member",)

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds import calls

        with texts.naming("subject`, `beside` or `member"):
            return calls.IsinstanceMember(self.subject, self.beside, self.member)
