from __future__ import annotations

import ast

import pytest

from patchkit.tree.outline import Outline

SHELVES = """\
import shop

RATE = 1


class Shelf(Box):
    rows = 1

    def put(self, book):
        return self.rows

    def take(self):
        global lent
        lent = 1


def lend(book):
    # why
    return book
"""


def part(source: str, dotted: str = "Shelf.put", *names: str) -> str:
    return Outline(source.encode(), ast.parse(source)).part(dotted, names)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("    return book\n", "    return None\n"),
        ("def lend(book)", "def lend_one(book)"),
        ("        lent = 1\n", "        lent = 2\n"),
        ("def take(self)", "def give(self)"),
        ("    # why\n", ""),
        ("    return book\n", "    return book\n\n\ndef of_the_fork(value=1):\n    return value\n"),
        ("class Shelf", "class Other:\n    def put(self): ...\n\n\nclass Shelf"),
    ],
)
def test_what_stands_in_other_definitions_does_not_count(was: str, now: str) -> None:
    assert part(SHELVES.replace(was, now)) == part(SHELVES)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("return self.rows", "return 2"),
        ("RATE = 1", "RATE = 2"),
        ("import shop", "import desk"),
        ("(Box)", "(Desk)"),
        ("rows = 1", "rows = 2"),
        ("def put(self, book)", "def put(self)"),
        ("    def take", "    # below\n    def take"),
        (
            "def lend(book)",
            "def put(self): ...\n\n\nclass Shelf:\n    def put(self): ...\n\n\ndef lend(book)",
        ),
        ("def lend(book)", "if RATE:\n    class Shelf: ...\n\n\ndef lend(book)"),
    ],
)
def test_what_it_depends_on_counts(was: str, now: str) -> None:
    assert part(SHELVES.replace(was, now)) != part(SHELVES)


def test_a_class_depends_on_all_that_is_in_it() -> None:
    assert part(SHELVES.replace("return self.rows", "return 2"), "Shelf") != part(SHELVES, "Shelf")


def test_who_binds_a_name_that_is_read_from_around_counts() -> None:
    without = SHELVES.replace("        global lent\n", "")
    assert part(without, "Shelf.put", "lent") != part(SHELVES, "Shelf.put", "lent")
    assert part(without, "Shelf.put", "shop") == part(SHELVES, "Shelf.put", "shop")
    other = SHELVES.replace("def lend", "def shop")
    assert part(other, "Shelf.put", "shop") != part(SHELVES, "Shelf.put", "shop")


@pytest.mark.parametrize(
    ("site", "dotted", "is_hidden"),
    [
        ("lend", "Shelf.put", True),
        ("Shelf.take", "Shelf.put", True),
        ("Shelf.take", "lend", True),
        ("Shelf.put", "Shelf.put", False),
        ("Shelf", "Shelf.put", False),
        ("Shelf.take", "Shelf", False),
        ("Shelf.made", "Shelf.put", False),
        ("made", "Shelf.put", False),
        ("lend.inner", "lend.other", False),
    ],
)
def test_an_edit_elsewhere_is_hidden(site: str, dotted: str, *, is_hidden: bool) -> None:
    assert Outline(SHELVES.encode(), ast.parse(SHELVES)).hides(site, dotted) is is_hidden
