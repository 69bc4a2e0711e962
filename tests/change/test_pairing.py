"""Which statements of two versions of a file are one another."""

from __future__ import annotations

import pytest

from patchkit.change.outline import Item, outline
from patchkit.change.pairing import equal_positions, is_form, likeness, paired


def item(text: str) -> Item:
    (found,) = outline(f"{text}\n").children
    return found


SURELY = [
    ("from shelf import books", "from shelf import cards, stamps"),
    ("import shelf", "import shelf"),
    ("def lend(book):\n    note(book)", "def lend(reader):\n    return 1"),
    ("class Desk:\n    days = 14", "class Desk(Base):\n    fees = True"),
    (
        "def lend(book):\n    note(book)\n    shelve(book)",
        "def give(book):\n    note(book)\n    shelve(book)",
    ),
]
NEVER = [
    ("from shelf import books", "from desk import books"),
    ("from shelf import books", "import shelf"),
    ("import shelf", "import desk"),
    ("def lend(book):\n    note(book)", "class lend:\n    pass"),
    ("def lend(book):\n    note(book)", "def take(book):\n    shelve(book)"),
    ("due = today()", "note(today())"),
    ("note(book)", "count(book)"),
    ("note(book)", "if note(book):\n    pass"),
    ("if book.out:\n    note(book)", "while book.out:\n    note(book)"),
    ("if book.out:\n    note(book)", "if reader.owes(fees):\n    refuse(reader)"),
    ("due = today()", "late = 14"),
    ("return due", "return 14 - days"),
]
MAYBE = [
    ("due = today()", "due = later(14, days)", 0.3),
    ("due = today()", "due: int = today()", 0.8),
    ("due = today()", "due = today(1)", 0.8),
    ("note(book, due)", "note(book, due, 1)", 0.8),
    ("due = today(book, 1)", "late = today(book, 1)", 0.8),
    ("if book.out:\n    note(book)", "if book.out:\n    count(reader)", 0.8),
    ("if book.out:\n    note(book)", "if reader:\n    note(book)", 0.5),
    ("if book.out and due:\n    note(book)", "if book.out and late:\n    note(book)", 0.7),
]


@pytest.mark.parametrize(("one", "other"), SURELY)
def test_two_forms_that_are_surely_one(one: str, other: str) -> None:
    assert likeness(item(one), item(other)) == likeness(item(other), item(one)) == 1.0
    assert likeness(item(one), item(one)) == 1.0


@pytest.mark.parametrize(("one", "other"), NEVER)
def test_two_that_are_never_one(one: str, other: str) -> None:
    assert likeness(item(one), item(other)) == likeness(item(other), item(one)) == 0.0


def test_a_statement_is_not_the_one_around_it() -> None:
    assert likeness(item("if book.out:\n    a()"), item("if reader:\n    if book.out:\n        a()")) == 0.0


@pytest.mark.parametrize(("one", "other", "least"), MAYBE)
def test_two_that_are_one_if_there_is_nothing_better(one: str, other: str, least: float) -> None:
    found = likeness(item(one), item(other))
    assert least <= found <= 1.0
    assert found == likeness(item(other), item(one))


@pytest.mark.parametrize(
    ("one", "other", "form"),
    [
        ("due = today()", "due: int = today()", True),
        ("due = today(book)", "late = today(book)", True),
        ("note(book, due)", "self.desk.note(book, due, 1)", True),
        ("note(book, due)", "count(book, due)", False),
        ("note(book, due)", "note(reader, late)", False),
        ("due = today(book)", "return today(book)", False),
        ("import shelf", "import shelf", False),
        ("def lend(book):\n    pass", "def lend(book):\n    pass", False),
        ("note()", "note()", True),
    ],
)
def test_a_statement_that_may_be_another_form_of_one(one: str, other: str, form: bool) -> None:
    assert is_form(item(one), item(other)) is form
    assert is_form(item(other), item(one)) is form


@pytest.mark.parametrize(
    ("one", "other", "pairs"),
    [
        # Equal statements are one, in order; definitions by name, in any order.
        ("a()\nb()\nc()", "a()\nc()", {0: 0, 2: 1}),
        ("def f(): a()\ndef g(): b()", "def g(): c()\ndef f(): d()", {0: 1, 1: 0}),
        ("def f(): a()\ndef f(): b()", "def f(): c()\ndef f(): d()\ndef f(): e()", {0: 0, 1: 1}),
        ("def f(): a()", "class f: a()", {}),
        # Of several, the most alike; between two that are one, and not across them.
        ("x = f(1, 2)\ny = g(3, 4)", "y = g(3, 5)\nx = f(1, 3)", {1: 0}),
        ("x = f(1, 2)", "x = g(7)\nx = f(1, 3)", {0: 1}),
        ("a()\nx = f(1, 2)\nb()", "a()\nb()\nx = f(1, 3)", {0: 0, 2: 1}),
        ("x = f(1, 2)\nb()\ny = 1", "x = f(1, 3)\nb()\ny = 2", {0: 0, 1: 1, 2: 2}),
        ("", "a()", {}),
    ],
)
def test_the_pairs_of_two_rows(one: str, other: str, pairs: dict[int, int]) -> None:
    left, right = (list(outline(f"{text}\n").children) if text else [] for text in (one, other))
    found = paired(left, right)
    assert {left.index(a): right.index(b) for a, b in found.items()} == pairs


def test_in_very_long_rows_assignments_to_one_name_are_one() -> None:
    one = outline("".join(f"x{number} = f({number})\n" for number in range(250))).children
    other = outline("".join(f"x{number} = g(0, {number})\n" for number in range(1, 251))).children
    found = paired(one, other)
    assert {a.name: b.name for a, b in found.items()} == {
        f"x{number}": f"x{number}" for number in range(1, 250)
    }


@pytest.mark.parametrize(
    ("one", "other", "positions"),
    [
        ("abc", "abc", {0: 0, 1: 1, 2: 2}),
        ("abc", "xbc", {1: 1, 2: 2}),
        ("abc", "bca", {1: 0, 2: 1}),
        ("abc", "", {}),
    ],
)
def test_positions_of_equal_runs(one: str, other: str, positions: dict[int, int]) -> None:
    assert equal_positions(one, other) == positions
