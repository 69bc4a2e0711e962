"""``none-guard``: run statements only if a value is not None."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import texts
from patchkit.codemods.language.statements import CompiledVariant, Statements

if TYPE_CHECKING:
    from patchkit.codemods.examination import Examination
    from patchkit.codemods.language.scope import Scope


class NoneGuard(Kind, frozen=True, kw_only=True, tag="none-guard", forbid_unknown_fields=True):
    """Run the statements that ``find`` matches only if ``value`` is not None."""

    find: str
    value: str
    already: tuple[str, ...] = ()

    writes: ClassVar[tuple[str, ...]] = ("value",)

    @property
    def _guarded(self) -> str:
        return f"if {self.value} is not None:\n    $$found\n"

    @property
    def forms(self) -> tuple[tuple[str, str], ...]:
        """The pattern ``find`` with the guard around it."""
        return ((self.find, self._guarded),)

    @cache  # noqa: B019  # As many as there are patches.
    def _statements(self) -> Statements:
        find = texts.site(self.find)
        texts.patterns("value", self.value)
        signs = texts.signs("value", texts.in_place(self.find, self._guarded))
        signs += texts.signs("already", *self.already)
        return Statements((CompiledVariant(find, self._guarded),), "replace", signs)

    def check(self) -> None:
        """Raise ValueError that names the malformed key."""
        texts.require_bound("value", self.value, self.find)
        self._statements()

    def examine(self, scope: Scope, note: str) -> Examination:
        """Find the statements and the guard."""
        return self._statements().examine(scope, note)

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "The statements move into the guard unchanged.",
            'find = "$book.due += $days"\nvalue = "$book.due"',
            before="""
            def extend(book, days):
                # a little longer
                book.due += days  # at most
            """,
            after="""
            def extend(book, days):
                # a little longer
                # toy: so that it shows
                if book.due is not None:
                    book.due += days  # at most
            """,
            scope="extend",
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The guard is present and contains other statements, too.",
            'find = "$book.due += $days"\nvalue = "$book.due"',
            before="""
            def extend(book, days):
                if book.due is not None:
                    log(book)
                    book.due += days
            """,
            scope="extend",
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "Two sites that match equally well are ambiguous.",
            'find = "$book.due += $days"\nvalue = "$book.due"',
            before="""
            def extend(one, two, days):
                one.due += days
                two.due += days
            """,
            scope="extend",
            refusal="several places match, expected one: `one.due += days`, `two.due += days`",
        ),
        Example(
            "The value must be an expression.",
            'find = "f($x)"\nvalue = "a b"',
            refusal="key `value`: not Python",
        ),
    )
