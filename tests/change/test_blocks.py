"""A merge leaves each statement in its blocks, and makes what the change does and nothing else."""

from __future__ import annotations

import pytest

from patchkit.change.blocks import misplacements

BASE = """\
def lend(book):
    if book.out:
        note(book)
        count(book)
    due = today()
    return due


def take(book):
    return book
"""
THEIRS = BASE.replace("    due = today()\n", "    due = today()\n    tell(due)\n").replace(
    "        count(book)\n", ""
)
OURS = BASE.replace("    return due", "    own(due)\n    return due")
MADE = THEIRS.replace("    return due", "    own(due)\n    return due")


def found(base: str, theirs: str, ours: str, result: str) -> list[int]:
    return sorted(set(misplacements(base, theirs, ours, result)))


def test_a_merge_that_makes_the_change_and_nothing_else_is_right() -> None:
    assert found(BASE, THEIRS, OURS, MADE) == []
    assert found(BASE, THEIRS, BASE, THEIRS) == []
    assert found(BASE, BASE, OURS, OURS) == []


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        # A line that is lost is one of this tree, one that is there one of the result.
        ("    own(due)\n", "", 6),
        ("        note(book)\n", "        pass\n", 3),
        ("    own(due)\n", "    if due:\n        own(due)\n", 6),
        ("    own(due)\n", "    own(due)\n    own(due)\n", 6),
        ("    tell(due)\n", "    tell(due)\n    tell(due)\n", 5),
        ("    tell(due)\n", "    tell(due)\n    other(due)\n", 6),
        ("        note(book)\n", "        note(book)\n        count(book)\n", 4),
        ("    due = today()\n", "    due = today()\n    count(book)\n", 5),
        ("    return book\n", "    shelve(book)\n    return book\n", 11),
        ("    return book\n", "    pass\n", 11),
        ("    due = today()\n", "", 5),
    ],
)
def test_the_line_of_a_statement_that_is_lost_moved_added_or_left(old: str, new: str, line: int) -> None:
    assert MADE.count(old) == 1
    assert line in found(BASE, THEIRS, OURS, MADE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [("def lend(", "def lend_out("), ("lend(book)", "lend(book, days=14)"), ("book.out", "book.gone")],
)
def test_a_header_that_one_side_changes_keeps_its_block(old: str, new: str) -> None:
    assert found(BASE, THEIRS, OURS.replace(old, new), MADE.replace(old, new)) == []
    assert found(BASE, THEIRS.replace(old, new), OURS, MADE.replace(old, new)) == []


def test_a_statement_that_the_change_moves_is_where_it_moves_it() -> None:
    theirs = BASE.replace("        count(book)\n", "").replace("    due =", "    count(book)\n    due =")
    assert found(BASE, theirs, BASE, theirs) == []
