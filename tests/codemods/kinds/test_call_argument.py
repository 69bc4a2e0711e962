from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.programs import check_noop, check_transformed, edit, rewritten

from patchkit.codemods.examination import SiteState

if TYPE_CHECKING:
    from patchkit.codemods.kind import Kind


def argument(*finds: str, text: str = "days=14", known: tuple[str, ...] = (), every: bool = False) -> Kind:
    return edit("call-argument", find=list(finds), argument=text, already=list(known), every=every)


LEND = argument("$desk.lend(...)")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("desk.lend()", "desk.lend(days=14)"),
        ("desk.lend(book)", "desk.lend(book, days=14)"),
        ("desk.lend(book, to=reader)", "desk.lend(book, to=reader, days=14)"),
        ("desk.lend(*books, **options)", "desk.lend(*books, **options, days=14)"),
        ("desk.lend(b for b in shelf)", "desk.lend((b for b in shelf), days=14)"),
        (
            "desk.lend(\n    book,  # which\n    reader,  # who\n)",
            "desk.lend(\n    book,  # which\n    reader,  # who\n    days=14,\n)",
        ),
        ("log(desk.lend(book))", "log(desk.lend(book, days=14))"),
    ],
)
def test_argument_comes_last(before: str, after: str) -> None:
    check_transformed(LEND, f"{before}\n", f"# toy: so that it shows\n{after}\n")


@pytest.mark.parametrize(
    "call", ["desk.lend(days=14)", "desk.lend(book, days = 14, to=reader)", "desk.lend(days=(14))"]
)
def test_argument_that_is_passed_stays(call: str) -> None:
    check_noop(LEND, f"{call}\n", SiteState.PRESENT)


def test_argument_that_is_passed_by_position_is_known_by_a_pattern() -> None:
    check_noop(
        argument("$d.lend(...)", known=("$d.lend($_, 14)",)), "desk.lend(book, 14)\n", SiteState.PRESENT
    )


def test_pattern_of_another_call_is_not_the_argument_passed() -> None:
    lend = argument("$d.lend(...)", known=("$d.lend($_, 14)",))
    assert "desk.lend(book, 7, days=14)" in rewritten(lend, "desk.lend(book, 7)\n")


def test_argument_of_another_value_is_a_conflict() -> None:
    check_noop(
        LEND, "desk.lend(days=7)\n", SiteState.AMBIGUOUS, reason="`desk.lend(days=7)` passes a different days"
    )


def test_no_such_call() -> None:
    check_noop(LEND, "desk.mend(book)\n", SiteState.ABSENT, reason="the nearest line is `desk.mend(book)`")


def test_two_such_calls_are_a_conflict_that_names_both() -> None:
    source = "desk.lend(book)\nif late:\n    x = desk.lend(novel)\n"
    check_noop(
        LEND,
        source,
        SiteState.AMBIGUOUS,
        reason="several places match, expected one: `desk.lend(book)`, `x = desk.lend(novel)`",
    )


def test_one_of_two_calls_done_is_a_conflict_too() -> None:
    source = "desk.lend(book, days=14)\nx = desk.lend(novel)\n"
    check_noop(LEND, source, SiteState.AMBIGUOUS, reason="`desk.lend(book, days=14)`, `x = desk.lend(novel)`")


def test_every_call_gets_it_also_one_inside_another() -> None:
    check_transformed(
        argument("lend(...)", every=True),
        """
        def day():
            lend(lend(book))
            lend(novel, days=14)
        """,
        """
        def day():
            # toy: so that it shows
            lend(lend(book, days=14), days=14)
            lend(novel, days=14)
        """,
        at="day",
    )


def test_call_that_two_patterns_find_is_one_call() -> None:
    lend = argument("$d.lend(...)", "desk.$what(book)")
    assert "desk.lend(book, days=14)" in rewritten(lend, "desk.lend(book)\n")


def test_other_scopes_are_left_alone() -> None:
    source = "def a():\n    desk.lend(book)\n\ndef b():\n    desk.lend(book)\n"
    assert rewritten(LEND, source, "b").count("days=14") == 1


@pytest.mark.parametrize("text", ["", "14", "*days", "a=1, b=2", "days=", "days=$x"])
def test_argument_that_is_not_one_keyword_is_malformed(text: str) -> None:
    with pytest.raises(ValueError, match=r"^key `"):
        argument("lend(...)", text=text)
