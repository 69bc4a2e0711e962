"""The parts of two versions that correspond, and the locals that one of them calls otherwise."""

from __future__ import annotations

import pytest

from patchkit.change.correspondence import Correspondence
from patchkit.change.outline import Item, outline

BASE = """\
def lend(book, days, *, late=False):
    due = today() + days
    note(book, due)
    book.due = due
    return due
"""


def function(text: str) -> Item:
    (found,) = outline(text).children
    return found


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ([], {}),
        ([("due", "end")], {"due": "end"}),
        ([("days", "span")], {"days": "span"}),
        ([("late", "is_late")], {"late": "is_late"}),
        ([("due", "end"), ("days", "span")], {"due": "end", "days": "span"}),
        # Only every occurrence is a new name, and only of a name that the function binds.
        ([("note(book, due)", "note(book, end)")], {}),
        ([("note", "log")], {}),
        ([("due = today()", "due = end = today()")], {}),
        # A parameter more or less leaves no positions.
        ([("book, days", "book, span, more"), ("+ days", "+ span")], {"days": "span"}),
        ([("return due", "return due + 1")], {}),
    ],
)
def test_the_locals_that_have_another_name(changes: list[tuple[str, str]], names: dict[str, str]) -> None:
    text = BASE
    for change in changes:
        text = text.replace(*change)
    one, other = function(BASE), function(text)
    found = Correspondence()
    assert found.names(one, other) == names
    assert found.names(one, other) is found.names(one, other)
    back = {new: old for old, new in names.items()}
    assert Correspondence().names(other, one) == back


def test_the_parts_at_any_depth_that_correspond() -> None:
    one = outline("class Desk:\n    days = 14\n    def lend(self):\n        a()\n        b()\n")
    other = outline("x = 1\nclass Desk:\n    def lend(self):\n        b()\n        own()\n    days = 15\n")
    found = Correspondence()
    within = {each.own_dedented.split("\n")[0] for each in found.within(one, other)}
    assert within == {"class Desk:", "days = 15", "def lend(self):", "b()"}
    assert found.parts(one, other) is found.parts(one, other)
