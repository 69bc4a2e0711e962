"""``delete-file``: remove a file; a file with unknown contents is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language.definitions import bound_names
from patchkit.tree.modules import PlainText, is_no_file, text_module

if TYPE_CHECKING:
    from patchkit.codemods.examination import Examination
    from patchkit.codemods.language.scope import Scope


class DeleteFile(Kind, frozen=True, kw_only=True, tag="delete-file", forbid_unknown_fields=True):
    """Remove the file; ``revert`` restores it.

    ``names`` lists the names that the file defines; a file that defines others is kept.
    """

    names: tuple[str, ...] = ()

    is_for_modules: ClassVar[bool] = True
    is_for_text: ClassVar[bool] = True
    makes_file: ClassVar[bool] = True
    writes: ClassVar[tuple[str, ...]] = ()

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
    )
