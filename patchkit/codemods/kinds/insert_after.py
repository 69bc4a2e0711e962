"""``insert-after``: insert statements after others."""

from __future__ import annotations

from typing import ClassVar

from patchkit.codemods.kind import Example
from patchkit.codemods.language.variants import StatementKind


class InsertAfter(StatementKind, frozen=True, kw_only=True, tag="insert-after", forbid_unknown_fields=True):
    """Insert statements after those that ``find`` matches."""

    place: ClassVar[str] = "after"

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "The statements go directly after the match.",
            'find = "self.open = False"\ncode = "self.lock()"',
            before="""
            class Desk:
                def close(self):
                    self.open = False  # for today
                    log(self)
            """,
            after="""
            class Desk:
                def close(self):
                    self.open = False  # for today
                    # toy: so that it shows
                    self.lock()
                    log(self)
            """,
            scope="Desk.close",
        ),
        Example(
            "`variants` are alternative forms of the site, each with its own `code`.",
            """
            variants = [
                { find = "$d.open()", code = "$d.greet()" },
                { find = "$d.unlock($key)", code = "$d.welcome($key)" },
            ]
            """,
            before="desk.unlock(key)",
            after="""
            desk.unlock(key)
            # toy: so that it shows
            desk.welcome(key)
            """,
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The statements are present.",
            'find = "self.open = False"\ncode = "self.lock()"',
            before="""
            class Desk:
                def close(self):
                    self.open = False
                    self.lock()
            """,
            scope="Desk.close",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "Two sites that match equally well are ambiguous.",
            'find = "$d.open = False"\ncode = "$d.lock()"',
            before="""
            one.open = False
            two.open = False
            """,
            refusal="several places match, expected one",
        ),
        Example("`find` is required.", 'code = "f()"', refusal="key `find`: the pattern is empty"),
    )
