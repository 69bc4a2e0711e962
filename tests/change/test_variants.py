"""An edit of which a tree has a variant of its own is told by what both do."""

from __future__ import annotations

import pytest

from patchkit.change.edits import EditOutcome, Outcome
from patchkit.change.outline import Item, outline
from patchkit.change.variants import new_names, variant_of

BASE = """\
limit = 1

def lend(book):
    check(book)
    book.out = True

class Desk:
    size = 2

    def take(self, book):
        check(book)
"""
LONG = "book.days = clamp(book.days + extra, least, most)"


def place(code: str, site: str) -> Item:
    item = outline(code).find(site)
    assert item is not None
    return item


def last(code: str, site: str) -> Item:
    scope = place(code, site) if site else outline(code)
    return scope.children[-1]


def variant(theirs: str, ours: str, site: str, outcome: Outcome = Outcome.LANDED, *names: str) -> str:
    """Return the variant of an edit that gives a scope its last statement."""
    edit = EditOutcome(site, outcome, place=last(ours, site), key=(last(theirs, site), ""))
    return variant_of(edit, outline(BASE), frozenset(names))


def with_line(line: str, code: str = BASE) -> str:
    return code.replace("    book.out = True\n", f"    book.out = True\n    {line}\n")


@pytest.mark.parametrize(
    ("theirs", "ours", "said"),
    [
        # A statement that is too long to stand there twice by chance.
        (LONG, LONG, LONG),
        (LONG, f"if late:\n        {LONG}", LONG),
        (LONG, LONG.replace("least", "other"), ""),
        ("book.days = 1", "book.days = 1", ""),
        ("from shelf import a, b, c, d, e, f", "from shelf import a, b, c, d, e, f", ""),
        ("if late:\n        book.days = 1", "if late:\n        book.days = 1", ""),
        (f"if late:\n        {LONG}", f"while book:\n        {LONG}", LONG),
        # A call.
        ("stamp(book)", "stamp(book, 2)", "stamp(book, 2)"),
        ("stamp(book)", "found = stamp(book)", ""),
        ("check(book)", "check(book, 2)", ""),
        ("logger.info(book)", "logger.info(2)", ""),
        ("print(book)", "print(2)", ""),
        ("warnings.warn(book)", "warnings.warn(2)", ""),
        ("super().lend(book)", "super().lend(2)", ""),
    ],
)
def test_a_variant_in_the_same_function(theirs: str, ours: str, said: str) -> None:
    assert variant(with_line(theirs), with_line(ours), "lend") == said


def test_a_statement_that_the_function_had_before_is_no_variant() -> None:
    base = with_line(LONG)
    edit = EditOutcome("lend", Outcome.LANDED, place=last(base, "lend"), key=(last(base, "lend"), ""))
    assert variant_of(edit, outline(base), frozenset()) == ""
    assert variant_of(edit, outline(BASE), frozenset()) == LONG


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome.LANDED, LONG),
        (Outcome.CHANGED, LONG),
        (Outcome.ALREADY, ""),
        (Outcome.CONFLICT, ""),
        (Outcome.KEPT, ""),
    ],
)
def test_only_an_edit_that_was_made_has_a_variant(outcome: Outcome, said: str) -> None:
    assert variant(with_line(LONG), with_line(LONG), "lend", outcome) == said


def test_a_name_that_the_change_binds_and_this_tree_has_is_a_variant() -> None:
    theirs, ours = with_line("book.span = 1"), with_line("use(book.span)")
    assert variant(theirs, ours, "lend", Outcome.LANDED, "span", "other") == "span"
    assert variant(theirs, ours, "lend", Outcome.LANDED, "other") == ""
    assert variant(theirs, with_line("use(book)"), "lend", Outcome.LANDED, "span") == ""


def test_a_statement_of_a_file_is_not_looked_for_in_its_functions() -> None:
    whole = LONG.replace("book", "desk")
    theirs, ours = f"{BASE}\n{whole}\n", f"{with_line(whole)}\nlast = 1\n"
    assert variant(theirs, ours, "") == ""
    assert variant(theirs, f"{BASE}\n{whole}\nlast = 1\n", "") == whole


def test_an_edit_without_a_site_or_a_place_has_no_variant() -> None:
    item = last(with_line(LONG), "lend")
    for edit in (
        EditOutcome("lend", Outcome.LANDED, place=item),
        EditOutcome("lend", Outcome.LANDED, key=(item, "")),
    ):
        assert variant_of(edit, outline(BASE), frozenset()) == ""


def test_a_scope_that_the_base_lacks_has_no_variant() -> None:
    code = f"def own(book):\n    {LONG}\n"
    edit = EditOutcome("own", Outcome.LANDED, place=last(code, "own"), key=(last(code, "own"), ""))
    assert variant_of(edit, outline(BASE), frozenset()) == ""


def test_the_names_that_a_change_binds() -> None:
    after = "first = known\nfirst.second: int = 3\nfor third in x: pass\ndef fourth(p): fifth = 1\nclass Sixth: ...\n"
    names = new_names([outline("known = 1\nthird(4)\n")], [outline(after + "known = 2\n")])
    assert names == {"first", "second", "fourth", "fifth", "Sixth"}
