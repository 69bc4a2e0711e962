from __future__ import annotations

import pytest
from support.programs import check_noop, edit, examine, program

from patchkit.codemods.examination import SiteState

PLAIN = """
def serve(book):
    open()
    lend(book)
    close()
"""


def test_a_statement_between_the_neighbours_is_no_obstacle() -> None:
    codemod = edit("exchange", code="count(book)", behind="open()", before="lend(book)")
    found = examine(codemod, program(PLAIN.replace("open()", "open()\n    greet()")), "serve")
    assert found.rewrite is not None
    lines = [line.strip() for line in found.rewrite().code.splitlines()]
    assert lines.index("count(book)") == lines.index("open()") + 2
    assert lines.index("count(book)") < lines.index("greet()")


def test_one_neighbour_is_enough_where_the_other_is_gone() -> None:
    codemod = edit("exchange", code="count(book)", behind="open()", before="lend(book)")
    assert examine(codemod, program(PLAIN.replace("lend", "sell")), "serve").state is SiteState.READY


def test_without_a_neighbour_nothing_comes() -> None:
    codemod = edit("exchange", code="count(book)", behind="open()", before="lend(book)")
    source = PLAIN.replace("lend", "sell").replace("open", "unlock")
    check_noop(codemod, source, SiteState.ABSENT, "serve", "expected `open()`, which is not there")


def test_comments_that_nobody_spoke_of_stay() -> None:
    codemod = edit("exchange", find="# two\nlend(book)", code="# three\nsell(book)", behind="open()")
    source = PLAIN.replace("    lend(book)", "    # one\n    # two\n    lend(book)")
    found = examine(codemod, program(source), "serve")
    assert found.rewrite is not None
    after = found.rewrite().code
    assert "# one" in after
    assert "# two" not in after
    assert "# three" in after


@pytest.mark.parametrize("text", ["\n    sell(book)", "\n    sell(book)\n    lend(book)"])
def test_where_both_are_there_without_neighbours_nothing_is_guessed(text: str) -> None:
    codemod = edit("exchange", find="lend(book)", code="sell(book)", behind="start()")
    source = PLAIN.replace("\n    close()", f"{text}\n    close()")
    check_noop(codemod, source, SiteState.AMBIGUOUS, "serve", "several places match")
