from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.programs import check_noop, check_transformed, examine, rewritten

from patchkit.codemods.examination import Codemod, Standing
from patchkit.codemods.kinds.insert_after import InsertAfter
from patchkit.codemods.kinds.insert_before import InsertBefore
from patchkit.codemods.kinds.insert_first import InsertFirst
from patchkit.codemods.kinds.none_guard import NoneGuard
from patchkit.codemods.kinds.rewrite import Rewrite
from patchkit.codemods.language.variants import Variant


def rewrite(find: str, code: str, **keys: Any) -> Codemod:
    return Rewrite(why="w", find=find, code=code, **keys).codemod()


def before(find: str, code: str, **keys: Any) -> Codemod:
    return InsertBefore(why="w", find=find, code=code, **keys).codemod()


def after(find: str, code: str, **keys: Any) -> Codemod:
    return InsertAfter(why="w", find=find, code=code, **keys).codemod()


def guard(find: str, value: str, **keys: Any) -> Codemod:
    return NoneGuard(why="w", find=find, value=value, **keys).codemod()


def opening(code: str, **keys: Any) -> Codemod:
    return InsertFirst(why="w", code=code, **keys).codemod()


# ---- one statement for another

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
    check_noop(FINE, source, Standing.PRESENT)


@pytest.mark.parametrize(
    "source",
    ["reader.debt = days * RATE\n", "reader.debt += RATE\n", "charge(days)\n", "pass\n", '"""Doc."""\n'],
)
def test_another_statement_is_not_the_site(source: str) -> None:
    check_noop(FINE, source, Standing.ABSENT, reason="expected `$who.debt += $days * RATE`")


def test_refusal_names_the_nearest_line() -> None:
    source = "x = 1\nreader.debt = days * RATE\n"
    check_noop(FINE, source, Standing.ABSENT, reason="the nearest line is `reader.debt = days * RATE`")


def test_two_sites_are_a_conflict_that_names_both_lines() -> None:
    source = "a.debt += 1 * RATE\nif late:\n    b.debt += 2 * RATE  # twice\n"
    reason = "expected one: `a.debt += 1 * RATE`, `b.debt += 2 * RATE  # twice`"
    check_noop(FINE, source, Standing.AMBIGUOUS, reason=reason)


def test_site_beside_one_that_is_done_is_a_conflict_that_names_both_lines() -> None:
    source = "b.charge(2)\na.debt += 1 * RATE\n"
    reason = "expected one: `b.charge(2)`, `a.debt += 1 * RATE`"
    check_noop(FINE, source, Standing.AMBIGUOUS, reason=reason)


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
    check_noop(edit, "charge(reader, days)\n", Standing.PRESENT)


def test_site_inside_a_known_one_is_no_other_site() -> None:
    edit = rewrite("log($who)", "note($who)", already=("if verbose:\n    log($who)",))
    check_noop(edit, "if verbose:\n    log(reader)\n", Standing.PRESENT)


# ---- the statements found, with others around them


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


GUARDED = guard("$d.sum += $x.pages", "$x.pages")


def test_guard_goes_around_the_statement() -> None:
    check_transformed(
        GUARDED,
        """
        for book in shelf:
            # how long
            desk.sum += book.pages  # all of it
        """,
        """
        for book in shelf:
            # how long
            # toy: so that it shows
            if book.pages is not None:
                desk.sum += book.pages  # all of it
        """,
    )


@pytest.mark.parametrize(
    "body",
    [
        "if book.pages is not None:\n        desk.sum += book.pages",
        "if book.pages is not None:\n        trace()\n        desk.sum += book.pages\n        trace()",
    ],
)
def test_guarded_statement_stays(body: str) -> None:
    check_noop(GUARDED, f"for book in shelf:\n    {body}\n", Standing.PRESENT)


def test_guard_on_another_value_is_not_the_guard() -> None:
    source = "if book.title is not None:\n    desk.sum += book.pages\n"
    assert rewritten(GUARDED, source).count("is not None") == 2


# ---- an expression for another

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
        TOTAL, "a = b.pages + 1, c.pages + 2\n", Standing.AMBIGUOUS, reason="`a = b.pages + 1, c.pages + 2`"
    )


def test_expression_around_which_something_is_missing() -> None:
    edit = rewrite("$x.pages", "$d.count($x)", context=("$d = desk()",))
    check_noop(edit, "a = book.pages\n", Standing.ABSENT, reason="expected `$d = desk()` around the site")


def test_expression_takes_names_from_around() -> None:
    edit = rewrite("$x.pages", "$d.count($x)", context=("$d = desk()",))
    assert "a = mine.count(book)" in rewritten(edit, "mine = desk()\na = book.pages\n")


def test_names_from_around_that_differ_are_a_conflict() -> None:
    edit = rewrite("$x.pages", "$d.count($x)", context=("$d = desk()",))
    check_noop(edit, "a = desk()\nb = desk()\nc = book.pages\n", Standing.AMBIGUOUS, reason="different names")


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
    check_noop(edit, "mask = empty(book.pages)\nlog(mask)\n", Standing.ABSENT)


# ---- statements for an expression

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
    check_noop(WAIT, f"def f(reader):\n    {line}\n", Standing.ABSENT)


@pytest.mark.parametrize("line", ["a(); reader.wait()", "reader.wait(); a()"])
def test_statement_on_a_shared_line_is_refused(line: str) -> None:
    edit = rewrite("$r.wait()", "if late:\n    $$found")
    check_noop(edit, f"{line}\n", Standing.AMBIGUOUS, reason=f"`{line}` holds several statements")


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
    check_noop(rewrite("check($x)", "if not $x:\n    return 0"), f"{there}\n", Standing.PRESENT)


def test_run_of_statements_on_one_line_is_remembered() -> None:
    edit = rewrite("if $x:\n    $$work", "with $x:\n    $$work")
    check_transformed(edit, "if x: a(); b()\n", "# toy: so that it shows\nwith x:\n    a()\n    b()\n")


def test_same_block_twice_is_the_same_on_one_line_and_on_two() -> None:
    edit = rewrite("if $x:\n    $$work\nelse:\n    $$work", "ask($x)\n$$work")
    check_transformed(edit, "if x: a()\nelse:\n    a()\n", "# toy: so that it shows\nask(x)\na()\n")


# ---- before and after


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
    check_noop(edit("$d.lend($b)", "$d.check($b)"), source, Standing.PRESENT)


@pytest.mark.parametrize("edit", [before, after])
def test_no_place_to_put_them(edit: Any) -> None:
    check_noop(
        edit("$d.lend($b)", "$d.check($b)"), "desk.mend(book)\n", Standing.ABSENT, reason="expected `$d.lend"
    )


@pytest.mark.parametrize("edit", [before, after])
@pytest.mark.parametrize("line", ["desk.lend(book); go()", "go(); desk.lend(book)"])
def test_place_on_a_shared_line_is_refused(edit: Any, line: str) -> None:
    source = f"{line}\n"
    check_noop(
        edit("$d.lend($b)", "$d.check($b)"), source, Standing.AMBIGUOUS, reason=f"`{line}` holds several"
    )


@pytest.mark.parametrize("edit", [before, after])
def test_two_places_are_a_conflict_that_names_both_lines(edit: Any) -> None:
    source = "a = desk.lend(book)\nb = desk.lend(book)\n"
    reason = "`a = desk.lend(book)`, `b = desk.lend(book)`"
    check_noop(edit("$d.lend($b)", "$d.check($b)"), source, Standing.AMBIGUOUS, reason=reason)


def test_variant_of_the_shape_at_hand_counts() -> None:
    variants = (
        Variant(find="$d.open()", code="$d.greet()"),
        Variant(find="$d.unlock($key)", code="$d.welcome($key)"),
    )
    edit = InsertAfter(why="w", variants=variants).codemod()
    assert "desk.welcome(1)" in rewritten(edit, "desk.unlock(1)\n")
    assert "desk.greet()" in rewritten(edit, "desk.open()\n")
    check_noop(edit, "desk.open()\ndesk.welcome(2)\n", Standing.PRESENT)
    check_noop(
        edit, "desk.open()\ndesk.unlock(1)\n", Standing.AMBIGUOUS, reason="`desk.open()`, `desk.unlock(1)`"
    )


# ---- at the start of a function

OPENED = opening("self.check()")


def test_function_is_opened_below_its_docstring() -> None:
    check_transformed(
        OPENED,
        '''
        class Desk:
            def lend(self):
                """Lend."""

                # first
                return self.book
        ''',
        '''
        class Desk:
            def lend(self):
                """Lend."""
                # toy: so that it shows
                self.check()

                # first
                return self.book
        ''',
        at="Desk.lend",
    )


def test_function_on_one_line_is_opened() -> None:
    check_transformed(
        OPENED,
        """
        def lend(self): return self.book  # quick
        """,
        """
        def lend(self):
            # toy: so that it shows
            self.check()
            return self.book  # quick
        """,
        at="lend",
    )


@pytest.mark.parametrize("body", ["self.check()", "trace()\n    self.check()\n    return 1"])
def test_function_that_has_it_stays(body: str) -> None:
    check_noop(OPENED, f"def lend(self):\n    {body}\n", Standing.PRESENT, at="lend")


@pytest.mark.parametrize(("source", "at"), [("class Desk:\n    pass\n", "Desk"), ("x = 1\n", "")])
def test_only_functions_are_opened(source: str, at: str) -> None:
    check_noop(OPENED, source, Standing.ABSENT, at=at, reason="is not a function")


# ---- whatever the layout

EDITS = {
    "statement": FINE,
    "every": rewrite("$who.debt += $days * RATE", "$who.charge($days)", every=True),
    "guard": GUARDED,
    "expression": rewrite("$x.pages", "$x.count()", every=True),
    "run": rewrite("$d.open()\n$$work\n$d.close()", "with $d:\n    $$work"),
    "before": before("$d.lend($b, ...)", "$d.check($b)"),
    "after": after("$d.lend($b, ...)", "$d.check($b)"),
    "opening": opening("trace()"),
}
LINES = (
    "reader.debt += days * RATE",
    "desk.sum += book.pages",
    "total = (book.pages + 1) * 2",
    "desk.open()",
    "desk.close()",
    "loan = desk.lend(book, days=14)",
    "desk.lend(novel)",
    "queue = [reader for reader in hall if reader.late]",
    "if book.lost: remind(reader)",
    "price = book.pages if book else 0; log(price)",
)
COMMENTS = st.sampled_from(["", "", "  # so", "  # TODO"])
ABOVE = st.sampled_from(["", "", "\n", "# why\n", "\n# why\n# and how\n"])


@st.composite
def blocks(draw: st.DrawFn, depth: int = 0) -> list[str]:
    """Draw the lines of a block, with comments and blank lines anywhere."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        lines += draw(ABOVE).splitlines()
        if depth < 2 and draw(st.booleans()):
            header = draw(st.sampled_from(["if reader.late:", "for book in shelf:", "with desk:", "try:"]))
            lines.append(header + draw(COMMENTS))
            lines += ["    " + line if line else "" for line in draw(blocks(depth + 1))]
            if header == "try:":
                lines += ["finally:" + draw(COMMENTS), "    rest()"]
        else:
            lines.append(draw(st.sampled_from(LINES)) + draw(COMMENTS))
    return lines


@st.composite
def programs(draw: st.DrawFn) -> str:
    body = ["    " + line if line else "" for line in draw(blocks())]
    return "\n".join(["def day(desk, reader, book):", *body, *draw(ABOVE).splitlines(), "x = 1", ""])


@given(programs(), st.sampled_from(sorted(EDITS)))
def test_edit_keeps_comments_compiles_and_is_found_again(source: str, name: str) -> None:
    if examine(EDITS[name], source, "day").standing is Standing.READY:
        rewritten(EDITS[name], source, "day")


@given(programs(), st.sampled_from(sorted(EDITS)))
def test_comments_and_blank_lines_change_neither_finding_nor_meaning(source: str, name: str) -> None:
    bare = "\n".join(
        line.split("  #")[0]
        for line in source.splitlines()
        if line.strip() and not line.strip().startswith("#")
    )
    findings = [examine(EDITS[name], text, "day") for text in (source, bare + "\n")]
    assert findings[0].standing is findings[1].standing
    if findings[0].standing is Standing.READY:
        trees = [ast.dump(ast.parse(finding.rewrite().code)) for finding in findings if finding.rewrite]
        assert trees[0] == trees[1]


@given(programs(), st.sampled_from(sorted(EDITS)))
def test_formatting_anew_changes_neither_finding_nor_meaning(source: str, name: str) -> None:
    source = source.replace("if book.lost: ", "").replace("; log(price)", "")
    findings = [examine(EDITS[name], text, "day") for text in (source, ast.unparse(ast.parse(source)) + "\n")]
    assert findings[0].standing is findings[1].standing
    if findings[0].standing is Standing.READY:
        trees = [ast.dump(ast.parse(finding.rewrite().code)) for finding in findings if finding.rewrite]
        assert trees[0] == trees[1]
