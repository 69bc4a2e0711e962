"""For a pattern that does not match, the message names the line that differs and the code in its place."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import libcst as cst
import pytest

from patchkit.codemods.examination import Examination
from patchkit.codemods.language import syntax
from patchkit.codemods.language.nearness import is_like, partly_bound
from patchkit.codemods.language.pattern import Pattern
from patchkit.codemods.language.scope import resolve
from patchkit.codemods.language.sites import (
    bindings_given,
    closest,
    nearest,
    nearest_of,
    noted,
    several,
    unmatched,
)

if TYPE_CHECKING:
    from patchkit.codemods.language.scope import Scope

LEND = """\
$desk.take($book)
$$one
$shelf.titles[:$n].copy_($desk.titles)
$$two
$shelf.days[:$n].copy_($desk.days)
$$three
$desk.close($book)
"""


def scope_of(code: str) -> Scope:
    (scope,) = resolve(cst.parse_module(textwrap.dedent(code)), "lend")
    return scope


def message_for(code: str, *finds: str) -> str:
    return unmatched(scope_of(code), [Pattern.compile(find) for find in finds]).numbered()


def spanned(code: str, find: str) -> tuple[int, int] | None:
    near = nearest_of(scope_of(code), [Pattern.compile(find)])
    return None if near is None else (near[1].start, near[1].end)


FORK = """
def lend(desk, shelf, book, n):
    note(book)
    desk.take(book)
    shelf.titles[:n].copy_(desk.titles.clamp(0, 1))
    count(shelf)
    shelf.days[:n].copy_(desk.days)
    desk.close(book)
    note(desk)
"""


def test_the_line_that_does_not_match_is_named_beside_the_one_that_comes_closest() -> None:
    assert message_for(FORK, LEND) == (
        "expected `shelf.titles[:n].copy_(desk.titles)` (line 3 of 7); "
        "the nearest line is `shelf.titles[:n].copy_(desk.titles.clamp(0, 1))`"
    )


def test_comments_and_blank_lines_are_no_lines_of_a_pattern_or_of_code() -> None:
    commented = FORK.replace("    shelf.titles", "    # why\n\n    shelf.titles")
    assert message_for(commented, LEND.replace("$$one", "\n\n$$one")) == message_for(FORK, LEND)


@pytest.mark.parametrize(("body", "place"), [("abb", (0, 2)), ("aab", (1, 3)), ("abab", (2, 4))])
def test_of_places_with_as_much_of_it_the_last_and_shortest_is_meant(
    body: str, place: tuple[int, int]
) -> None:
    code = "def lend():\n" + "".join(f"    {name}()\n" for name in body)
    assert spanned(code, "a()\n$$x\nb()\n$$y\nc()") == place


def test_a_line_without_a_name_counts_too() -> None:
    assert spanned("def lend(desk):\n    desk.open()\n    return 1\n", "$desk.open()\nreturn 1\nc()") == (
        0,
        2,
    )
    assert spanned("def lend(desk):\n    desk.open()\n    return 2\n", "$desk.open()\nreturn 1\nc()") == (
        0,
        1,
    )


def test_all_that_it_looks_for_is_its_place() -> None:
    assert spanned(FORK, LEND) == (1, 6)


def test_a_run_that_is_another_the_second_time_names_no_line() -> None:
    code = "def lend():\n    a()\n    x()\n    b()\n    y()\n    c()\n"
    assert message_for(code, "a()\n$$x\nb()\n$$x\nc()") == "expected `a() ... b() ... c()`"


def test_a_line_that_is_nowhere_is_said_to_be() -> None:
    without = FORK.replace("    shelf.days[:n].copy_(desk.days)\n", "").replace(".clamp(0, 1)", "")
    assert message_for(without, LEND) == (
        "expected `shelf.days[:n].copy_(desk.days)` (line 5 of 7); no line is similar"
    )
    assert spanned(without, LEND) == (1, 5)


def test_the_line_may_stand_in_a_block() -> None:
    find = "if $book.late:\n    $desk.fine($book)\n    $desk.note($book)\n$desk.close($book)"
    code = """
    def lend(desk, book):
        if book.late:
            desk.fine(book, days=2)
            desk.note(book)
        desk.close(book)
    """
    assert message_for(code, find) == (
        "expected `desk.fine(book)` (line 2 of 4); the nearest line is `desk.fine(book, days=2)`"
    )


def test_names_that_differ_where_they_have_to_be_one_are_a_line_too() -> None:
    code = "def lend(desk, other, book):\n    desk.take(book)\n    other.close(book)\n"
    assert message_for(code, "$desk.take($book)\n$desk.close($book)") == (
        "expected `desk.close(book)` (line 2 of 2); the nearest line is `other.close(book)`"
    )


def test_a_name_of_the_pattern_is_what_it_matched_and_otherwise_a_word() -> None:
    code = "def lend(counter, tome):\n    counter.take(tome)\n    other.close(tome)\n"
    find = "$desk.take($book)\n$$work\n$desk.close($book, $reader, $_)"
    assert message_for(code, find) == (
        "expected `counter.close(tome, reader, _)` (line 3 of 3); the nearest line is `other.close(tome)`"
    )
    assert (
        message_for(code, "$desk.shut($book) + $one")
        == "expected `desk.shut(book) + one`; no line is similar"
    )


def test_what_stands_between_is_named() -> None:
    code = "def lend(desk, book):\n    desk.take(book)\n    count(book)\n    desk.close(book)\n"
    assert message_for(code, "$desk.take($book)\n$desk.close($book)") == (
        "expected `desk.take(book) desk.close(book)`; `count(book)` is in between"
    )


def test_a_line_that_assigns_to_the_same_is_closer_than_one_that_takes_it_from_the_same() -> None:
    find = "$book.title = $text.to($desk, copy=True)\n$desk.close($book)"
    code = """
    def lend(desk, book, text):
        book.pages = text.to(desk, copy=True)
        book.title = own(text)
        desk.close(book)
    """
    assert "(line 1 of 2); the nearest line is `book.title = own(text)`" in message_for(code, find)
    assert spanned(code, find) == (1, 3)


def test_a_line_that_the_fork_has_in_a_block_belongs_to_it() -> None:
    code = """
    def lend(desk, book):
        note(book)
        desk.take(book, now=True)
        if book.late:
            desk.close(book)
        note(desk)
    """
    find = "$desk.take($book)\n$$between\n$desk.close($book)"
    assert spanned(code, find) == (1, 3)
    assert "(line 1 of 3); the nearest line is `desk.take(book, now=True)`" in message_for(code, find)


def test_of_a_statement_of_several_lines_the_part_that_does_not_match_is_named() -> None:
    find = "copy(\n    [\n        ($shelf.days, $desk.days),\n        ($shelf.fines, 1),\n    ]\n)\n$desk.close($book)"
    code = """
    def lend(desk, shelf, book):
        copy([(shelf.days, desk.days.clamp(0, 1)), (shelf.fines, 1)])
        desk.close(book)
    """
    assert message_for(code, find).startswith(
        "expected `desk.days`, found `desk.days.clamp(0, 1)`; the nearest line is `copy("
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("copy(shelf.days, shelf.late)", "expected `$late`, found `shelf.late`"),
        ("copy(shelf.days)", "expected `copy"),
        ("copy(shelf.days, 1, now=True)", "expected `copy"),
        ("paste(shelf.days, 1)", "expected `copy`, found `paste`"),
    ],
)
def test_the_part_that_does_not_match_is_as_small_as_it_can_be(call: str, said: str) -> None:
    code = f"def lend(desk, shelf, book):\n    {call}\n    desk.close(book)\n"
    find = "copy(\n    $shelf.days,\n    1,\n)\n$desk.close($book)".replace(
        "1", "1" if "$late" not in said else "2"
    )
    assert message_for(code, find).startswith(said.replace("$late", "2"))


def test_of_several_ways_the_one_of_which_most_is_there_is_meant() -> None:
    assert "`$desk.close($book)`" not in message_for(FORK, "$desk.lock($book)\n$desk.open($book)", LEND)
    assert "(line 3 of 7)" in message_for(FORK, "$desk.lock($book)\n$desk.open($book)", LEND)


def test_of_two_places_the_one_where_it_stands_together_is_meant() -> None:
    twice = FORK.replace("    note(book)\n", "    desk.take(book)\n    note(book)\n")
    assert spanned(twice, LEND) == (2, 7)


def test_a_line_that_matches_counts_for_more_than_two_that_only_share_names() -> None:
    code = """
    def lend(self, rows):
        for row in rows:
            books = our_sorted(row, start=-1)
            first, rest = split(books, self.days, start=-1)
        cards = desk.joined(rows, start=1)
        top = desk.days(cards, start=-1)
    """
    find = (
        "$books = desk.sorted($row, start=-1)\n$$between\n$first, $rest = split($books, self.days, start=-1)"
    )
    assert message_for(code, find) == (
        "expected `books = desk.sorted(row, start=-1)` (line 1 of 3); no line is similar"
    )


@pytest.mark.parametrize(
    "code", ["def lend(desk):\n    open(desk)\n", "def lend(): ...\n", "def lend(): return 1\n"]
)
def test_a_scope_with_nothing_like_it_has_no_place(code: str) -> None:
    assert spanned(code, LEND) is None
    assert "of 7" not in message_for(code, LEND)


@pytest.mark.parametrize(
    ("find", "code", "bound"),
    [
        ("$shelf.titles[$n] = 1", "shelf.titles[n] = other", {"shelf": "shelf", "n": "n"}),
        ("$shelf.titles[$n] = $value", "shelf.titles[n] = 1", {"shelf": "shelf", "n": "n", "value": "1"}),
        ("$shelf.titles[$n] = $value", "desk.days = 1", {}),
        ("$shelf.titles[$n] = 1", "if late:\n    shelf.titles[n] = 1", {}),
        (
            "if $late:\n    $shelf.put($n, 1)",
            "if late:\n    shelf.put(n, 2)",
            {"late": "late", "shelf": "shelf", "n": "n"},
        ),
    ],
)
def test_names_are_known_from_the_parts_of_a_statement_that_match(
    find: str, code: str, bound: dict[str, str]
) -> None:
    found = partly_bound(Pattern.compile(find), cst.parse_module(code).body)
    assert {
        name: syntax.code_of(node) for name, node in found.items() if isinstance(node, cst.CSTNode)
    } == bound


@pytest.mark.parametrize(
    ("body", "run"),
    [
        ("desk.take(book)\nnote(book)\nnote(1)\ndesk.close(book, 1)", ["note(book)", "note(1)"]),
        ("desk.take(book)\ndesk.close(book)", []),
        ("desk.take(book)\nnote(book)", None),
    ],
)
def test_statements_between_two_lines_are_what_a_run_stands_for(body: str, run: list[str] | None) -> None:
    find = "$desk.take($book)\n$$between\n$desk.close($book)\n$$_\nlend()"
    found = partly_bound(Pattern.compile(find), cst.parse_module(body).body)
    between = found.get("between")
    nodes = None if between is None else [syntax.code_of(each).strip() for each in between]  # type: ignore[union-attr]
    assert nodes == run
    assert "_" not in found


@pytest.mark.parametrize(
    ("code", "alike"),
    [
        ("copy(book.title, book.days)", True),
        ("note(title)", True),
        ("note(book)", False),
        ("self.close()", False),
    ],
)
def test_code_is_like_a_pattern_if_it_has_a_third_of_its_names(code: str, alike: bool) -> None:
    pattern = Pattern.compile("self.copy($book.title, $days)\n$shelf.put()")
    assert is_like(pattern, cst.parse_statement(code)) is alike


LENT = """
def lend(desk, book, days):
    if days:
        due = calendar_of(desk, everyone, in_turn=True).days_from(desk.today, days, book.pages, more=14)
    desk.close(book)
    note(1)
    self.fine = 0
    note(shelf.late, everyone)
    lend(shelf.lat)
"""


@pytest.mark.parametrize(
    ("wanted", "line"),
    [
        ("$desk.close($book, 1)", "desk.close(book)"),
        # An assignment to the same attribute is nearer than a line that looks more like it.
        ("clerk.fine = calendar_of(desk, everyone)", "self.fine = 0"),
        ("self.fine: int = 2", "self.fine = 0"),
        # A call with the same argument is nearer than a line that looks more like it.
        ("lend(shelf.late)", "note(shelf.late, everyone)"),
        # Too little of the long line is like it, but it has the dotted name.
        ("x = book.pages", "due = calendar_of"),
        ("while open_at(night): pass", ""),
    ],
)
def test_the_nearest_line_is_named_and_its_statement_is_found(wanted: str, line: str) -> None:
    scope = scope_of(LENT)
    assert not line or nearest(scope, wanted).lines[0].startswith(line)
    where = closest(scope, wanted)
    assert (where is None) == (not line)
    if where is not None:
        assert syntax.code_of(syntax.node_at(scope.module, where)).strip().startswith(line)


def test_a_scope_is_not_its_own_nearest_statement() -> None:
    where = closest(scope_of("def lend(desk):\n    lend(desk)\n"), "lend($desk)")
    assert where is not None
    assert where[-1] == ("body", 0)


def test_a_pattern_around_the_site_is_named_whatever_is_in_it() -> None:
    around = bindings_given(scope_of(LENT), [Pattern.compile('log("lent; due")')])
    assert isinstance(around, Examination)
    assert around.reason == 'expected `log("lent; due")` around the site; no line is similar'


def test_a_line_that_assigns_the_same_attribute_is_nearer_than_one_that_looks_like_it() -> None:
    code = """
        def lend(self, book):
            self.due = None
            book.dues = today() + self.days
    """
    assert message_for(code, "book.due = today() + self.days").endswith(
        "the nearest line is `self.due = None`"
    )


@pytest.mark.parametrize(
    ("code", "field", "noted_code"),
    [
        ("if a:\n    b()\nelif c(1):\n    d()\n", "c(1)", "if a:\n    b()\nelif c(1):\n    # why\n    d()\n"),
        ("if a: b()\nelif c(1): d()\n", "c(1)", "# why\nif a: b()\nelif c(1): d()\n"),
        ("if a:\n    b()\nelif c:\n    d(1)\n", "d(1)", "if a:\n    b()\nelif c:\n    # why\n    d(1)\n"),
        (
            "if 0:\n    if a: b()\n    elif c(1): d()\n",
            "c(1)",
            "if 0:\n    # why\n    if a: b()\n    elif c(1): d()\n",
        ),
        ("if c(1):\n    b()\n", "c(1)", "# why\nif c(1):\n    b()\n"),
    ],
)
def test_a_note_is_above_the_statement_and_for_an_elif_in_its_body(
    code: str, field: str, noted_code: str
) -> None:
    module = cst.parse_module(code)
    path = next(path for path, node in syntax.descend(module) if syntax.code_of(node) == field)
    assert noted(module, path, [], "why").code == noted_code


def test_several_places_are_named_in_the_order_of_the_source() -> None:
    blocks = "try", "except E", "else", "finally"
    code = "".join(f"    {block}:\n        f({at})\n" for at, block in enumerate(blocks, 1))
    scope = scope_of(f"def lend(a):\n    while f(0):\n        f(0.5)\n{code}")
    paths = [match.path for match in Pattern.compile("f($x)").find(scope.node, scope.path)]
    lines = "while f(0):", "f(0.5)", "f(1)", "f(2)", "f(3)", "f(4)"
    assert several(scope, reversed(paths)).lines == lines
