from __future__ import annotations

import pytest
from support.programs import check_noop, edit, examine, program, rewritten

from patchkit.codemods.examination import SiteState

PLAIN = """
def settle(days):
    count(days)
    # since May
    # a penny a day
    charge(days)
"""
OTHER = {"find": "charge(days)", "code": "# two pence a day", "gone": "# a penny a day"}


def test_another_comment_takes_the_place_of_one_and_what_is_around_stays() -> None:
    found = examine(edit("comment", **OTHER), program(PLAIN), "settle")
    assert found.rewrite is not None
    lines = [line.strip() for line in found.rewrite().code.splitlines()]
    assert "# a penny a day" not in lines
    assert lines.index("# two pence a day") == lines.index("# since May") + 1


def test_a_comment_that_says_something_else_stays() -> None:
    source = PLAIN.replace("a penny", "nothing")
    check_noop(edit("comment", **OTHER), source, SiteState.ABSENT, "settle", "expected `# a penny a day`")


def test_of_two_statements_alike_the_one_with_the_neighbour_is_meant() -> None:
    source = PLAIN.replace("    count(days)", "    charge(days)\n    count(days)")
    codemod = edit("comment", find="charge(days)", code="# all", gone="", behind="count(days)")
    found = examine(codemod, program(source), "settle")
    assert found.rewrite is not None
    lines = [line.strip() for line in found.rewrite().code.splitlines()]
    assert lines[lines.index("# all") - 1] == "# a penny a day"


def test_blank_lines_change_whatever_the_comment_says() -> None:
    codemod = edit("comment", find="charge(days)", code="\n# a penny\n", gone="# a penny\n")
    found = examine(codemod, program(PLAIN), "settle")
    assert found.rewrite is not None
    assert "count(days)\n\n    # since May" in found.rewrite().code


@pytest.mark.parametrize("mark", ["\x0c", "\u2028"])
def test_a_separator_inside_a_comment_does_not_end_its_line(mark: str) -> None:
    codemod = edit("comment", find="charge(days)", code=f"# two{mark}pence")
    made = rewritten(codemod, PLAIN, "settle")
    assert f"    # two{mark}pence\n" in made
    assert examine(codemod, program(made), "settle").state is SiteState.PRESENT
