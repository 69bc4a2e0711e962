from __future__ import annotations

import pytest
from support.programs import check_noop, check_transformed, edit, rewritten

from patchkit.codemods.examination import Codemod, Standing


def argument(*finds: str, text: str = "days=14", known: tuple[str, ...] = (), every: bool = False) -> Codemod:
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
    check_noop(LEND, f"{call}\n", Standing.PRESENT)


def test_argument_that_is_passed_by_position_is_known_by_a_pattern() -> None:
    check_noop(
        argument("$d.lend(...)", known=("$d.lend($_, 14)",)), "desk.lend(book, 14)\n", Standing.PRESENT
    )


def test_pattern_of_another_call_is_not_the_argument_passed() -> None:
    lend = argument("$d.lend(...)", known=("$d.lend($_, 14)",))
    assert "desk.lend(book, 7, days=14)" in rewritten(lend, "desk.lend(book, 7)\n")


def test_argument_of_another_value_is_a_conflict() -> None:
    check_noop(
        LEND, "desk.lend(days=7)\n", Standing.AMBIGUOUS, reason="`desk.lend(days=7)` passes another days"
    )


def test_no_such_call() -> None:
    check_noop(LEND, "desk.mend(book)\n", Standing.ABSENT, reason="the nearest line is `desk.mend(book)`")


def test_two_such_calls_are_a_conflict_that_names_both() -> None:
    source = "desk.lend(book)\nif late:\n    x = desk.lend(novel)\n"
    check_noop(
        LEND,
        source,
        Standing.AMBIGUOUS,
        reason="several places match, expected one: `desk.lend(book)`, `x = desk.lend(novel)`",
    )


def test_one_of_two_calls_done_is_a_conflict_too() -> None:
    source = "desk.lend(book, days=14)\nx = desk.lend(novel)\n"
    check_noop(LEND, source, Standing.AMBIGUOUS, reason="`desk.lend(book, days=14)`, `x = desk.lend(novel)`")


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


def value(code: str, *given: str, find: str = "$desk.lend(..., days=$_)") -> Codemod:
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
    check_noop(value("min($value, 14)"), "desk.lend(days=min(wish, 14))\n", Standing.PRESENT)


def test_value_of_an_argument_that_is_not_passed() -> None:
    check_noop(value("14"), "desk.lend(book, 7)\n", Standing.ABSENT, reason="expected a call like")


def test_values_of_two_calls_are_a_conflict_that_names_both() -> None:
    source = "desk.lend(days=1)\ndesk.lend(days=2)\n"
    check_noop(value("14"), source, Standing.AMBIGUOUS, reason="`desk.lend(days=1)`, `desk.lend(days=2)`")


def test_name_from_around_a_value_that_is_not_there() -> None:
    edit = value("$reader.days", "$reader = find($_)")
    check_noop(edit, "desk.lend(days=1)\n", Standing.ABSENT, reason="around the site")


KINDLE = edit("isinstance-member", subject="item", beside="Book", member="Reader")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("isinstance(item, Book)", "isinstance(item, (Book, Reader))"),
        ("isinstance(item, (Book,))", "isinstance(item, (Book, Reader,))"),
        ("isinstance(item, (Map, shop.Book))", "isinstance(item, (Map, shop.Book, Reader))"),
        ("isinstance(item, Map | Book)", "isinstance(item, (Map, Book, Reader))"),
        ("isinstance(item, Map) or isinstance(item, Book)", "isinstance(item, (Map, Book, Reader))"),
        (
            "isinstance(item, (Map, A)) or isinstance(item, Book)",
            "isinstance(item, (Map, A, Book, Reader))",
        ),
        ("item and isinstance(item, Book)", "item and isinstance(item, (Book, Reader))"),
        ("new or isinstance(item, Book)", "new or isinstance(item, (Book, Reader))"),
        (
            "not (isinstance(item, Map) or isinstance(item, Book))",
            "not (isinstance(item, (Map, Book, Reader)))",
        ),
        (
            "isinstance(\n    item,\n    (\n        Map,  # of a town\n        Book,  # of any kind\n"
            "    ),\n)",
            "isinstance(\n    item,\n    (\n        Map,  # of a town\n        Book,  # of any kind\n"
            "        Reader,\n    ),\n)",
        ),
        (
            "isinstance(item, (\n    Map,\n    Book  # of any kind\n))",
            "isinstance(item, (\n    Map,\n    Book,  # of any kind\n    Reader\n))",
        ),
    ],
)
def test_member_joins_in_one_test(before: str, after: str) -> None:
    check_transformed(KINDLE, f"ok = {before}\n", f"# toy: so that it shows\nok = {after}\n")


def test_comments_of_a_chain_go_above() -> None:
    check_transformed(
        KINDLE,
        """
        if (
            isinstance(item, Map)  # of a town
            or isinstance(item, Book)
        ):
            lend(item)
        """,
        """
        # of a town
        # toy: so that it shows
        if (
            isinstance(item, (Map, Book, Reader))
        ):
            lend(item)
        """,
    )


def test_note_on_an_elif_goes_into_its_body() -> None:
    check_transformed(
        KINDLE,
        """
        if closed:
            refuse(item)
        elif isinstance(item, Book):
            lend(item)
        """,
        """
        if closed:
            refuse(item)
        elif isinstance(item, (Book, Reader)):
            # toy: so that it shows
            lend(item)
        """,
    )


def test_note_on_an_elif_with_its_body_on_the_line_goes_above_all() -> None:
    check_transformed(
        KINDLE,
        """
        if closed: refuse(item)
        elif isinstance(item, Book): lend(item)
        """,
        """
        # toy: so that it shows
        if closed: refuse(item)
        elif isinstance(item, (Book, Reader)): lend(item)
        """,
    )


@pytest.mark.parametrize(
    "test",
    [
        "isinstance(item, (Book, Reader))",
        "isinstance(item, (Map, shop.Reader, shop.Book))",
        "isinstance(item, Book | Reader)",
        "isinstance(item, Reader) or isinstance(item, Book)",
    ],
)
def test_member_that_is_asked_for_stays(test: str) -> None:
    check_noop(KINDLE, f"ok = {test}\n", Standing.PRESENT)


@pytest.mark.parametrize(
    "test",
    [
        "isinstance(thing, Book)",
        "isinstance(item, Map)",
        "isinstance(item, Books)",
        "isinstance(item, LENT)",
        "issubclass(item, Book)",
        "type(item) is Book",
    ],
)
def test_another_test_is_not_the_one(test: str) -> None:
    check_noop(KINDLE, f"ok = {test}\n", Standing.ABSENT, reason="expected `isinstance(item, Book)`")


def test_two_tests_are_a_conflict_that_names_both() -> None:
    source = "a = isinstance(item, Book)\nb = isinstance(item, (Map, Book))\n"
    check_noop(KINDLE, source, Standing.AMBIGUOUS, reason="`a = isinstance(item, Book)`, `b = isinstance(")


@pytest.mark.parametrize(
    ("subject", "member"), [("", "Reader"), ("item", ""), ("item", "a b"), ("$x", "Reader")]
)
def test_subject_or_member_that_is_no_expression_is_malformed(subject: str, member: str) -> None:
    with pytest.raises(ValueError, match=r"^key `"):
        edit("isinstance-member", subject=subject, beside="Book", member=member)
