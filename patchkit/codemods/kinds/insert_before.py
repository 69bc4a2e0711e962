"""``insert-before``: insert statements in front of others."""

from __future__ import annotations

from typing import ClassVar

from patchkit.codemods.kind import Example
from patchkit.codemods.language.variants import StatementKind


class InsertBefore(StatementKind, frozen=True, kw_only=True, tag="insert-before", forbid_unknown_fields=True):
    """Insert statements in front of those that ``find`` matches."""

    place: ClassVar[str] = "before"

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "The statements go directly above the match and its comments.",
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
            "A statement on its header's line matches, too.",
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
            "The statements are present.",
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
            "No statement is similar.",
            'find = "self.lend($book)"\ncode = "self.check($book)"',
            before="def serve(self, book): ...",
            scope="serve",
            refusal="expected `self.lend(book)`",
        ),
        Example(
            "A `find` of runs alone is nowhere in particular.",
            'find = "$$body"\ncode = "f()"',
            refusal="key `find`: only `...` or `$$name`",
        ),
        Example("`code` is required.", 'find = "f()"', refusal="key `code`: the pattern is empty"),
    )
