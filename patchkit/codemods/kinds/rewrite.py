"""``rewrite``: replace statements or an expression."""

from __future__ import annotations

from typing import ClassVar

from patchkit.codemods.kind import Example
from patchkit.codemods.language.variants import StatementKind, TargetVariant


class Rewrite(StatementKind, frozen=True, kw_only=True, tag="rewrite", forbid_unknown_fields=True):
    """Replace the statements or the expression that ``find`` matches."""

    target: str = ""
    variants: tuple[TargetVariant, ...] = ()
    every: bool = False

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "Statements match by structure, apart from comments and white space.",
            'find = "$who.debt += $days * RATE"\ncode = "$who.charge($days)"',
            before="""
            def settle(reader, days):
                if days > 0:
                    # a penny a day
                    reader.debt += (days  *  RATE)
            """,
            after="""
            def settle(reader, days):
                if days > 0:
                    # a penny a day
                    # toy: so that it shows
                    reader.charge(days)
            """,
            scope="settle",
        ),
        Example(
            "An expression is replaced wherever it occurs.",
            'find = "len($shelf.books)"\ncode = "$shelf.count()"',
            before="full = len(shelf.books) > 5",
            after="""
            # toy: so that it shows
            full = shelf.count() > 5
            """,
        ),
        Example(
            "A block may be on its header's line.",
            'find = "if not $book:\\n    return 0"\ncode = "if $book is None:\\n    return 0"',
            before="""
            def price(book):
                if not book: return 0
                return book.price
            """,
            after="""
            def price(book):
                # toy: so that it shows
                if book is None:
                    return 0
                return book.price
            """,
            scope="price",
        ),
        Example(
            "`$$found` writes back the matched statements, `$$name` a part of them, with their comments.",
            'find = "$desk.open()\\n$$work\\n$desk.close()"\ncode = "with $desk:\\n    $$work"',
            before="""
            desk.open()
            lend()  # one
            desk.close()
            """,
            after="""
            # toy: so that it shows
            with desk:
                lend()  # one
            """,
        ),
        Example(
            "`clear_of` lists what the statements in between must not touch, so that others can move past them.",
            """
            find = "$shelf.add($one)\\n$$between\\n$shelf.add($two)"
            code = "$$between\\n$shelf.add_all($one, $two)"
            clear_of = ["$shelf"]
            """,
            before="""
            shelf.add(first)
            greet(reader)
            shelf.add(second)
            """,
            after="""
            # toy: so that it shows
            greet(reader)
            shelf.add_all(first, second)
            """,
        ),
        Example(
            "With `target`, only that expression of `find` is replaced.",
            'find = "$shelf.fill(..., to=$rows)"\ntarget = "rows"\ncode = "max($rows, 1)"',
            before="shelf.fill(books, to=rows)",
            after="""
            # toy: so that it shows
            shelf.fill(books, to=max(rows, 1))
            """,
        ),
        Example(
            "The new code is found again by the names that `context` binds: with others it is of another edit.",
            """
            context = ["for $book in $_:\\n    ..."]
            find = "log($desk, $book)"
            code = "$desk.note($book)"
            """,
            before="""
            desk.note(None)
            for book in books:
                log(desk, book)
            """,
            after="""
            desk.note(None)
            for book in books:
                # toy: so that it shows
                desk.note(book)
            """,
        ),
        Example(
            "`find` may list alternative forms of the site with one `code`; `every` edits all matches.",
            'find = ["$d.lend($b)", "$d.loan($b)"]\ncode = "$d.hand_out($b)"\nevery = true',
            before="""
            desk.lend(one)
            desk.loan(two)
            """,
            after="""
            # toy: so that it shows
            desk.hand_out(one)
            desk.hand_out(two)
            """,
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The new code is present.",
            'find = "$who.debt += $days * RATE"\ncode = "$who.charge($days)"',
            before="reader.charge(3)",
        ),
        Example(
            "`already` matches another form of the change, such as upstream's.",
            """
            find = "$who.debt += $days * RATE"
            code = "$who.charge($days)"
            already = ["if $who.pays:\\n    ..."]
            """,
            before="""
            if reader.pays:
                reader.debt += days * RATE
            """,
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "A refusal names the line that did not match and the nearest line.",
            'find = "$who.debt += $days * RATE"\ncode = "$who.charge($days)"',
            before="reader.debt += days * price",
            refusal="expected `reader.debt += days * RATE`; the nearest line is `reader.debt += days * price`",
        ),
        Example(
            "Two sites that match equally well are ambiguous.",
            'find = "$who.charge()"\ncode = "$who.pay()"',
            before="""
            one.charge()
            two.charge()
            """,
            refusal="several places match, expected one: `one.charge()`, `two.charge()`",
        ),
        Example(
            "`clear_of`: a statement in between touches what would move past it.",
            """
            find = "$shelf.add($one)\\n$$between\\n$shelf.add($two)"
            code = "$$between\\n$shelf.add_all($one, $two)"
            clear_of = ["$shelf"]
            """,
            before="""
            shelf.add(first)
            count = len(shelf)
            shelf.add(second)
            """,
            refusal="`count = len(shelf)` is in between and uses what the edit moves",
        ),
        Example(
            "Code that `...` matches would be lost.",
            'find = "f($x, ...)"\ncode = "g($x)"',
            refusal="key `find`: `code` would delete the code that `...` matches",
        ),
        Example(
            "`target` must be a name in `find`.",
            'find = "f($x)"\ncode = "g($x)"\ntarget = "y"',
            refusal="key `target`: `find` has no $y",
        ),
        Example(
            "Every placeholder must be bound.",
            'find = "f()"\ncode = "g($x)"',
            refusal="nothing binds $x",
        ),
    )
