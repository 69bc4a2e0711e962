from __future__ import annotations

import pytest
from support.programs import check_noop, check_transformed, edit

from patchkit.codemods.examination import SiteState

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
    check_noop(KINDLE, f"ok = {test}\n", SiteState.PRESENT)


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
    check_noop(KINDLE, f"ok = {test}\n", SiteState.ABSENT, reason="expected `isinstance(item, Book)`")


def test_two_tests_are_a_conflict_that_names_both() -> None:
    source = "a = isinstance(item, Book)\nb = isinstance(item, (Map, Book))\n"
    check_noop(KINDLE, source, SiteState.AMBIGUOUS, reason="`a = isinstance(item, Book)`, `b = isinstance(")


@pytest.mark.parametrize(
    ("subject", "member"), [("", "Reader"), ("item", ""), ("item", "a b"), ("$x", "Reader")]
)
def test_subject_or_member_that_is_no_expression_is_malformed(subject: str, member: str) -> None:
    with pytest.raises(ValueError, match=r"^key `"):
        edit("isinstance-member", subject=subject, beside="Book", member=member)
