from __future__ import annotations

from typing import Any

import pytest
from support.programs import check_noop, check_transformed, rewritten

from patchkit.codemods.examination import SiteState
from patchkit.codemods.kinds.insert_after import InsertAfter
from patchkit.codemods.kinds.insert_before import InsertBefore
from patchkit.codemods.language.variants import Variant


def before(find: str, code: str, **keys: Any) -> InsertBefore:
    return InsertBefore(why="w", find=find, code=code, **keys)


def after(find: str, code: str, **keys: Any) -> InsertAfter:
    return InsertAfter(why="w", find=find, code=code, **keys)


def test_statements_go_in_front_below_the_blank_line() -> None:
    check_transformed(
        before("$d.lend($b, ...)", "$d.check($b)\nlog($b)"),
        """
        def serve(desk):
            book = find()

            # now
            loan = desk.lend(book)
        """,
        """
        def serve(desk):
            book = find()

            # toy: so that it shows
            desk.check(book)
            log(book)
            # now
            loan = desk.lend(book)
        """,
        at="serve",
    )


def test_of_blank_lines_one_stays_above_what_goes_in_front() -> None:
    check_transformed(
        before("b = 2", "c()"), "a = 1\n\n\nb = 2\n", "a = 1\n\n# toy: so that it shows\nc()\nb = 2\n"
    )


def test_statements_go_behind_all_that_is_found() -> None:
    check_transformed(
        after("if len($k) == len($b):\n    ...", "$b.clear()"),
        """
        if len(keep) == len(books):
            return_all()
        # the rest
        go_on()
        """,
        """
        if len(keep) == len(books):
            return_all()
        # toy: so that it shows
        books.clear()
        # the rest
        go_on()
        """,
    )


def test_expression_of_a_condition_has_the_whole_statement_as_its_site() -> None:
    check_transformed(
        before("is_open($x)", "wake($x)"),
        """
        if closed:
            rest()
        elif is_open(desk):
            lend()
        """,
        """
        # toy: so that it shows
        wake(desk)
        if closed:
            rest()
        elif is_open(desk):
            lend()
        """,
    )


@pytest.mark.parametrize("edit", [before, after])
def test_statements_that_are_there_are_not_put_again(edit: Any) -> None:
    source = "desk.check(book)\ntrace()\ndesk.lend(book)\n"
    check_noop(edit("$d.lend($b)", "$d.check($b)"), source, SiteState.PRESENT)


@pytest.mark.parametrize("edit", [before, after])
def test_no_place_to_put_them(edit: Any) -> None:
    check_noop(
        edit("$d.lend($b)", "$d.check($b)"), "desk.mend(book)\n", SiteState.ABSENT, reason="expected `d.lend"
    )


@pytest.mark.parametrize("edit", [before, after])
@pytest.mark.parametrize("line", ["desk.lend(book); go()", "go(); desk.lend(book)"])
def test_place_on_a_shared_line_is_refused(edit: Any, line: str) -> None:
    source = f"{line}\n"
    check_noop(
        edit("$d.lend($b)", "$d.check($b)"), source, SiteState.AMBIGUOUS, reason=f"`{line}` has several"
    )


@pytest.mark.parametrize("edit", [before, after])
def test_two_places_are_a_conflict_that_names_both_lines(edit: Any) -> None:
    source = "a = desk.lend(book)\nb = desk.lend(book)\n"
    reason = "`a = desk.lend(book)`, `b = desk.lend(book)`"
    check_noop(edit("$d.lend($b)", "$d.check($b)"), source, SiteState.AMBIGUOUS, reason=reason)


def test_variant_of_the_shape_at_hand_counts() -> None:
    variants = (
        Variant(find="$d.open()", code="$d.greet()"),
        Variant(find="$d.unlock($key)", code="$d.welcome($key)"),
    )
    edit = InsertAfter(why="w", variants=variants)
    assert "desk.welcome(1)" in rewritten(edit, "desk.unlock(1)\n")
    assert "desk.greet()" in rewritten(edit, "desk.open()\n")
    check_noop(edit, "desk.open()\ndesk.welcome(2)\n", SiteState.PRESENT)
    check_noop(
        edit, "desk.open()\ndesk.unlock(1)\n", SiteState.AMBIGUOUS, reason="`desk.open()`, `desk.unlock(1)`"
    )
