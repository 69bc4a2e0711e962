from __future__ import annotations

from typing import Any

import pytest
from support.programs import check_noop, check_transformed, examine, program, rewritten

from patchkit.codemods.examination import SiteState
from patchkit.codemods.kinds.rewrite import Rewrite


def rewrite(find: str, code: str, **keys: Any) -> Rewrite:
    return Rewrite(why="w", find=find, code=code, **keys)


FINE = rewrite("$who.debt += $days * RATE", "$who.charge($days)")


def test_statement_is_replaced_where_it_stands() -> None:
    check_transformed(
        FINE,
        """
        def settle(reader, days):
            if days > 0:
                # a penny a day
                reader.debt += days * RATE
            reader.late = False
        """,
        """
        def settle(reader, days):
            if days > 0:
                # a penny a day
                # toy: so that it shows
                reader.charge(days)
            reader.late = False
        """,
        at="settle",
    )


def test_comments_of_what_is_replaced_stay_above_in_their_order() -> None:
    check_transformed(
        rewrite("$who.debt += $days * RATE\nlog($who)", "$who.charge($days)"),
        """
        reader.debt += (  # TODO
            days * RATE  # a penny
        )

        # afterwards
        log(reader)  # TODO
        """,
        """
        # TODO
        # a penny
        # afterwards
        # TODO
        # toy: so that it shows
        reader.charge(days)
        """,
    )


def test_renamed_variables_and_other_statements_do_not_matter() -> None:
    source = "def settle(person, n, extra=None):\n    trace()\n    person.debt += n * RATE\n    trace()\n"
    assert "    person.charge(n)\n" in rewritten(FINE, source, "settle")


@pytest.mark.parametrize(
    "source",
    ["reader.charge(days)\n", "def settle(reader):\n    other()\n    reader.charge( reader.days )  # done\n"],
)
def test_statement_that_is_replaced_already_stays(source: str) -> None:
    check_noop(FINE, source, SiteState.PRESENT)


@pytest.mark.parametrize(
    "source",
    ["reader.debt = days * RATE\n", "reader.debt += RATE\n", "charge(days)\n", "pass\n", '"""Doc."""\n'],
)
def test_another_statement_is_not_the_site(source: str) -> None:
    check_noop(FINE, source, SiteState.ABSENT, reason=".debt += days * RATE`; ")


def test_refusal_names_the_nearest_line() -> None:
    source = "x = 1\nreader.debt = days * RATE\n"
    check_noop(FINE, source, SiteState.ABSENT, reason="the nearest line is `reader.debt = days * RATE`")


def test_two_sites_are_a_conflict_that_names_both_lines() -> None:
    source = "a.debt += 1 * RATE\nif late:\n    b.debt += 2 * RATE  # twice\n"
    reason = "expected one: `a.debt += 1 * RATE`, `b.debt += 2 * RATE  # twice`"
    check_noop(FINE, source, SiteState.AMBIGUOUS, reason=reason)


def test_site_beside_one_that_is_done_is_a_conflict_that_names_both_lines() -> None:
    source = "b.charge(2)\na.debt += 1 * RATE\n"
    reason = "expected one: `b.charge(2)`, `a.debt += 1 * RATE`"
    check_noop(FINE, source, SiteState.AMBIGUOUS, reason=reason)


def test_every_site_is_edited_and_the_first_says_why() -> None:
    check_transformed(
        rewrite("$who.debt += $days * RATE", "$who.charge($days)", every=True),
        """
        b.charge(2)
        a.debt += 1 * RATE
        if late:
            c.debt += 3 * RATE
        """,
        """
        b.charge(2)
        # toy: so that it shows
        a.charge(1)
        if late:
            c.charge(3)
        """,
    )


def test_known_way_to_have_it_done_is_recognised() -> None:
    edit = rewrite("$who.debt += $days * RATE", "$who.charge($days)", already=("charge($who, ...)",))
    check_noop(edit, "charge(reader, days)\n", SiteState.PRESENT)


def test_site_inside_a_known_one_is_no_other_site() -> None:
    edit = rewrite("log($who)", "note($who)", already=("if verbose:\n    log($who)",))
    check_noop(edit, "if verbose:\n    log(reader)\n", SiteState.PRESENT)


def test_found_statements_are_kept_as_they_are() -> None:
    check_transformed(
        rewrite("log($who)\n$who.wait()", "with $who.lock:\n    $$found"),
        """
        def serve(reader):
            # so that we know
            log(reader)  # who it is

            # a moment
            reader.wait( )
        """,
        """
        def serve(reader):
            # so that we know
            # toy: so that it shows
            with reader.lock:
                log(reader)  # who it is

                # a moment
                reader.wait( )
        """,
    )


def test_run_between_is_kept_with_its_comments() -> None:
    check_transformed(
        rewrite("$d.open()\n$$work\n$d.close()", "with $d:\n    $$work"),
        """
        def day(desk):
            desk.open()
            # all day
            for reader in queue:
                serve(reader)

            desk.close()  # at last
            return True
        """,
        """
        def day(desk):
            # at last
            # toy: so that it shows
            with desk:
                # all day
                for reader in queue:
                    serve(reader)
            return True
        """,
        at="day",
    )


TOTAL = rewrite("$x.pages + $y", "total($x, $y)")


def test_expression_is_replaced_inside_its_statement() -> None:
    check_transformed(
        TOTAL,
        """
        # how long
        note = f(book.pages + 1, key=2)  # roughly
        """,
        """
        # how long
        # toy: so that it shows
        note = f(total(book, 1), key=2)  # roughly
        """,
    )


def test_comments_inside_an_expression_go_above() -> None:
    check_transformed(
        TOTAL,
        """
        note = f(
            book.pages  # as printed
            + cover  # both sides
        )
        """,
        """
        # as printed
        # toy: so that it shows
        note = f(
            total(book, cover)  # both sides
        )
        """,
    )


def test_expression_on_a_shared_line_is_replaced_there() -> None:
    check_transformed(
        TOTAL, "if x: a = 1; b = x.pages + 2\n", "# toy: so that it shows\nif x: a = 1; b = total(x, 2)\n"
    )


def test_two_expressions_in_one_statement_are_a_conflict() -> None:
    check_noop(
        TOTAL, "a = b.pages + 1, c.pages + 2\n", SiteState.AMBIGUOUS, reason="`a = b.pages + 1, c.pages + 2`"
    )


def test_expression_around_which_something_is_missing() -> None:
    edit = rewrite("$x.pages", "$d.count($x)", context=("$d = desk()",))
    check_noop(edit, "a = book.pages\n", SiteState.ABSENT, reason="expected `d = desk()` around the site")


def test_expression_takes_names_from_around() -> None:
    edit = rewrite("$x.pages", "$d.count($x)", context=("$d = desk()",))
    assert "a = mine.count(book)" in rewritten(edit, "mine = desk()\na = book.pages\n")


def test_names_from_around_may_be_there_twice_if_they_are_the_same() -> None:
    edit = rewrite("$x.pages", "$d.count($x)", context=("$d = desk()",))
    assert "c = mine.count(book)" in rewritten(edit, "mine = desk()\nmine = desk()\nc = book.pages\n")


def test_names_from_around_that_differ_are_a_conflict() -> None:
    edit = rewrite("$x.pages", "$d.count($x)", context=("$d = desk()",))
    check_noop(
        edit, "a = desk()\nb = desk()\nc = book.pages\n", SiteState.AMBIGUOUS, reason="different names"
    )


def test_only_the_target_is_replaced_in_its_context() -> None:
    check_transformed(
        rewrite("$a = empty($size, ...)\n...\nfill($a)", "bound($size)", target="size"),
        """
        mask = empty(book.pages, dtype=bool)  # one a page
        log(mask)
        fill(mask)
        other = empty(3)
        """,
        """
        # toy: so that it shows
        mask = empty(bound(book.pages), dtype=bool)  # one a page
        log(mask)
        fill(mask)
        other = empty(3)
        """,
    )


def test_target_outside_its_context_is_no_site() -> None:
    edit = rewrite("$a = empty($size, ...)\n...\nfill($a)", "bound($size)", target="size")
    check_noop(edit, "mask = empty(book.pages)\nlog(mask)\n", SiteState.ABSENT)


WAIT = rewrite("$r.wait()", "if late:\n    $r.wait()")


def test_expression_that_is_a_statement_becomes_statements() -> None:
    check_transformed(
        WAIT,
        """
        reader.wait()  # outside
        """,
        """
        # outside
        # toy: so that it shows
        if late:
            reader.wait()
        """,
    )


@pytest.mark.parametrize("line", ["x = reader.wait()", "return reader.wait()", "f(reader.wait())"])
def test_expression_inside_a_statement_does_not(line: str) -> None:
    check_noop(WAIT, f"def f(reader):\n    {line}\n", SiteState.ABSENT)


@pytest.mark.parametrize("line", ["a(); reader.wait()", "reader.wait(); a()"])
def test_statement_on_a_shared_line_is_refused(line: str) -> None:
    edit = rewrite("$r.wait()", "if late:\n    $$found")
    check_noop(edit, f"{line}\n", SiteState.AMBIGUOUS, reason=f"`{line}` has several statements")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if x: reader.wait()", "if x:\n    {note}\n    if late:\n        reader.wait()"),
        (
            "while x: reader.wait(); b()  # so",
            "while x:\n    {note}\n    if late:\n        reader.wait()\n    b()  # so",
        ),
        (
            "if x: a()\nelse: reader.wait()  # so",
            "if x: a()\nelse:\n    {note}\n    if late:\n        reader.wait()  # so",
        ),
    ],
)
def test_statement_on_the_line_of_its_header_gets_a_block(before: str, after: str) -> None:
    edit = rewrite("$r.wait()", "if late:\n    $$found")
    check_transformed(edit, f"{before}\n", after.format(note="# toy: so that it shows") + "\n")


ONE_LINE = ("if not $x: return 0", "if not $x:\n    return 0")


@pytest.mark.parametrize("find", ONE_LINE)
@pytest.mark.parametrize("there", ["if not book: return 0", "if not book:\n        # why\n        return 0"])
def test_block_matches_wherever_it_stands(find: str, there: str) -> None:
    after = rewritten(rewrite(find, "check($x)"), f"def price(book):\n    {there}\n", "price")
    assert "check(book)" in after
    assert "return" not in after


@pytest.mark.parametrize("there", ["if not book: return 0", "if not book:\n    return 0"])
def test_edit_made_is_found_wherever_its_block_stands(there: str) -> None:
    check_noop(rewrite("check($x)", "if not $x:\n    return 0"), f"{there}\n", SiteState.PRESENT)


def test_run_of_statements_on_one_line_is_remembered() -> None:
    edit = rewrite("if $x:\n    $$work", "with $x:\n    $$work")
    check_transformed(edit, "if x: a(); b()\n", "# toy: so that it shows\nwith x:\n    a()\n    b()\n")


def test_same_block_twice_is_the_same_on_one_line_and_on_two() -> None:
    edit = rewrite("if $x:\n    $$work\nelse:\n    $$work", "ask($x)\n$$work")
    check_transformed(edit, "if x: a()\nelse:\n    a()\n", "# toy: so that it shows\nask(x)\na()\n")


@pytest.mark.parametrize("mark", ["\x0c", "\u2028"])
def test_a_separator_inside_a_string_does_not_end_its_line(mark: str) -> None:
    codemod = rewrite("charge(days)", f"log('a{mark}b')\n$$found")
    made = rewritten(codemod, "charge(days)\n")
    assert f"log('a{mark}b')\ncharge(days)\n" in made
    assert examine(codemod, program(made)).state is SiteState.PRESENT
