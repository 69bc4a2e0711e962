"""``delete-file``: remove a file; a file with unknown contents is kept."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language.definitions import bound_names
from patchkit.tree.modules import PlainText, is_no_file, text_module

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod, Examination
    from patchkit.codemods.language.scope import Scope


def digest_of(text: str) -> str:
    """Return a digest of the lines of a file, white space aside."""
    lines = (" ".join(line.split()) for line in text.splitlines() if line.strip())
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()


class DeleteFile(Kind, frozen=True, kw_only=True, tag="delete-file", forbid_unknown_fields=True):
    """Remove the file; ``revert`` restores it.

    ``names`` lists the names that the file defines; a file that defines others is kept. ``digest``, for a file whose
    lines move elsewhere, also keeps a file with other lines.
    """

    names: tuple[str, ...] = ()
    digest: str = ""

    is_for_modules: ClassVar[bool] = True
    is_for_text: ClassVar[bool] = True
    writes: ClassVar[tuple[str, ...]] = ()

    @property
    def makes_file(self) -> bool:
        """Always true: a missing file is no conflict."""
        return True

    def codemod(self) -> Codemod:
        """Return the edit."""
        return self

    def examine(self, scope: Scope, note: str) -> Examination:
        """Look for the file and for other names that it defines."""
        del note
        if is_no_file(scope.module):
            return examination.present()
        others = (
            [] if isinstance(scope.module, PlainText) else sorted(bound_names(scope).difference(self.names))
        )
        if others:
            return examination.ambiguous(f"the file also defines {', '.join(others)}, which would be lost")
        if self.digest and digest_of(scope.module.code) != self.digest:
            return examination.ambiguous("the file has changed, and the changes would be lost")
        return examination.ready(lambda: text_module(None))

    VALID: ClassVar[tuple[Example, ...]] = (
        Example("The file is removed.", 'names = ["lend"]', before="def lend(book): ...", after=""),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (Example("The file does not exist.", 'names = ["lend"]'),)
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "Other definitions are not lost.",
            'names = ["lend"]',
            before="""
            def lend(book): ...
            def borrow(book): ...
            """,
            refusal="the file also defines borrow, which would be lost",
        ),
        Example(
            "With `digest`, changed lines are not lost.",
            'names = ["lend"]\ndigest = "0123456789abcdef"',
            before="def lend(book, days): ...",
            refusal="the file has changed",
        ),
    )
