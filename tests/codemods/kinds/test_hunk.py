"""A hunk's place is the one with most of the lines around it, and what is there already stays."""

from __future__ import annotations

from support.programs import edit, examine, program

from patchkit.codemods.examination import SiteState

TWICE = program("""
    sign(desk)
    log(book)
    open(desk)
    sign(desk)
    log(book)
""")


def test_of_two_places_the_one_with_more_lines_above_is_meant() -> None:
    hunk = edit("hunk", diff=" open(desk)\n sign(desk)\n-log(book)\n+count(book)\n thank(desk)\n")
    finding = examine(hunk, TWICE)
    assert finding.rewrite is not None, finding.reason
    made = finding.rewrite().code
    assert made.startswith("sign(desk)\nlog(book)\nopen(desk)\nsign(desk)\n")
    assert made.endswith("count(book)\n")


def test_a_new_line_that_is_there_above_its_neighbour_is_not_added_once_more() -> None:
    hunk = edit("hunk", diff="+count(book)\n lend(book)\n note(book)\n")
    assert examine(hunk, "count(book)\nlend(book)\n").state is SiteState.PRESENT
