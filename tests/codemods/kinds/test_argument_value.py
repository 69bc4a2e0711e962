from __future__ import annotations

from typing import TYPE_CHECKING

from support.programs import check_noop, check_transformed, edit

from patchkit.codemods.examination import SiteState

if TYPE_CHECKING:
    from patchkit.codemods.kind import Kind


def value(code: str, *given: str, find: str = "$desk.lend(..., days=$_)") -> Kind:
    return edit("argument-value", find=find, argument="days", code=code, context=list(given))


def test_value_is_replaced_and_can_be_used() -> None:
    check_transformed(
        value("min($value, 14)"),
        """
        loan = desk.lend(book, days=wish or 7, to=reader)
        """,
        """
        # toy: so that it shows
        loan = desk.lend(book, days=min(wish or 7, 14), to=reader)
        """,
    )


def test_value_takes_names_from_the_call_and_from_around_it() -> None:
    check_transformed(
        value("$value if $reader.pays else $desk.days", "$reader = find($_)"),
        """
        me = find(name)
        desk.lend(days=30)
        """,
        """
        me = find(name)
        # toy: so that it shows
        desk.lend(days=30 if me.pays else desk.days)
        """,
    )


def test_comment_on_a_value_stays() -> None:
    check_transformed(
        value("14"),
        """
        desk.lend(
            days=(
                30  # a month
            ),
        )
        """,
        """
        # toy: so that it shows
        desk.lend(
            days=(
                14  # a month
            ),
        )
        """,
    )


def test_value_that_is_passed_stays() -> None:
    check_noop(value("min($value, 14)"), "desk.lend(days=min(wish, 14))\n", SiteState.PRESENT)


def test_value_of_an_argument_that_is_not_passed() -> None:
    check_noop(value("14"), "desk.lend(book, 7)\n", SiteState.ABSENT, reason="expected a call like")


def test_values_of_two_calls_are_a_conflict_that_names_both() -> None:
    source = "desk.lend(days=1)\ndesk.lend(days=2)\n"
    check_noop(value("14"), source, SiteState.AMBIGUOUS, reason="`desk.lend(days=1)`, `desk.lend(days=2)`")


def test_name_from_around_a_value_that_is_not_there() -> None:
    edit = value("$reader.days", "$reader = find($_)")
    check_noop(edit, "desk.lend(days=1)\n", SiteState.ABSENT, reason="around the site")
