"""``insert-before``: statements are put in front of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods.kind import Example
from patchkit.codemods.language.variants import StatementKind

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod


class InsertBefore(StatementKind, frozen=True, kw_only=True, tag="insert-before", forbid_unknown_fields=True):
    """Put statements in front of those that ``find`` matches."""

    def codemod(self) -> Codemod:
        """Build the codemod."""
        return self.build("before")

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "The statements stand between what is above and what was found.",
            'find = "self.lend($book)"\ncode = "self.check($book)"',
            before="""
            def serve(self, book):
                # with a smile
                self.lend(book)
            """,
            after="""
            def serve(self, book):
                # toy: so that it shows
                self.check(book)
                # with a smile
                self.lend(book)
            """,
            scope="serve",
        ),
        Example(
            "A statement on the line of its header is found, too.",
            'find = "self.lend($book)"\ncode = "self.check($book)"',
            before="""
            def serve(self, book):
                if book: self.lend(book)
            """,
            after="""
            def serve(self, book):
                if book:
                    # toy: so that it shows
                    self.check(book)
                    self.lend(book)
            """,
            scope="serve",
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The statements are there.",
            'find = "self.lend($book)"\ncode = "self.check($book)"',
            before="""
            def serve(self, book):
                self.check(book)
                log(book)
                self.lend(book)
            """,
            scope="serve",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "No place is like it.",
            'find = "self.lend($book)"\ncode = "self.check($book)"',
            before="def serve(self, book): ...",
            scope="serve",
            refusal="expected `self.lend($book)`",
        ),
        Example("`code` says what to put there.", 'find = "f()"', refusal="key `code`: the pattern is empty"),
    )
