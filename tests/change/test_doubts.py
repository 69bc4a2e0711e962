"""What one side uses and the other changes, and what both add, is a conflict, also in what git merges cleanly."""

from __future__ import annotations

import pytest

from patchkit.change.sides import Sides, merged


def is_whole(base: str, ours: str, theirs: str) -> bool:
    """Return whether two sides are merged, which is the same in either direction. Git has a conflict in the imports."""
    one, other = (f"import os\nimport {name}\n\n\n{text}" for name, text in (("re", ours), ("ast", theirs)))
    base = f"import os\n\n\n{base}"
    results = [merged(Sides(base, *sides)).is_whole for sides in ((one, other), (other, one))]
    assert results[0] is results[1]
    return results[0]


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


CALLS = """\
class Desk:
    def lend(self, book, due=None):
        return book

    def take(self, book):
        card = find(book)
        ring(card)
        note(card)
        return self.lend(book)
"""
USED = changed(CALLS, ("        card = find(book)\n", "        card = find(book)\n        self.lend(card)\n"))


@pytest.mark.parametrize(
    "changes",
    [
        [("self, book, due", "self, book, reader, due"), ("lend(book)", "lend(book, 1)")],
        [("self, book, due=None", "self"), ("lend(book)", "lend()")],
        [("self, book, due", "self, *, book, due"), ("lend(book)", "lend(book=book)")],
        [("    def lend(self, book, due=None)", "    @property\n    def lend(self)"), ("lend(book)", "lend")],
        [
            ("    def lend", "    async def lend"),
            ("    def take", "    async def take"),
            ("self.lend", "await self.lend"),
        ],
        [("        return book\n", "        return book, due\n"), ("lend(book)", "lend(book)[0]")],
    ],
    ids=["a parameter more", "fewer", "by name only", "a property", "a coroutine", "a tuple"],
)
def test_one_side_calls_a_function_once_more_whose_calls_the_other_changes(
    changes: list[tuple[str, str]],
) -> None:
    assert not is_whole(CALLS, changed(CALLS, *changes), USED)


def test_one_side_calls_a_function_once_more_to_which_the_other_adds_a_default() -> None:
    assert is_whole(CALLS, changed(CALLS, ("due=None", "due=None, *, reader=None")), USED)


TESTS = """\
@patch("desk.lend.run")
def test_lend(run):
    call(run)


def test_take(shelf):
    assert shelf["kind"]
"""


@pytest.mark.parametrize(("old", "new"), [('"desk.lend.run"', '"desk.lending.go"'), ('"kind"', '"sort"')])
def test_one_side_names_in_a_string_what_the_other_names_otherwise(old: str, new: str) -> None:
    last = f"\n\ndef test_last(shelf):\n    note({old})\n"
    assert not is_whole(TESTS, changed(TESTS, (old, new)), TESTS + last)
    assert is_whole(TESTS, changed(TESTS, ("call(run)", "call(run, 1)")), TESTS + last)


def test_one_side_renames_in_a_class_what_the_other_uses_there_and_another_class_has_too() -> None:
    desk = "class Desk:\n    def open(self):\n        self.bell = 1\n\n    def take(self):\n        self.bell.ring()\n"
    gate = f"\n\n{desk.replace('Desk', 'Gate')}"
    renamed = desk.replace("bell", "gong")
    used = f"{desk}\n    def shut(self):\n        self.bell.stop()\n"
    assert not is_whole(desk + gate, renamed + gate, used + gate)


ROWS = """\
A = [
    1,
    2,
    3,
]
B = {
    4: a,
    5: b,
    6: c,
}


def last():
    a()
    b()
    c()
"""


@pytest.mark.parametrize(
    ("first", "second", "line", "other"),
    [
        ("    1,\n", "    3,\n", "    7,\n", "    7,\n"),
        ("    4: a,\n", "    6: c,\n", "    7: d,\n", "    7: e,\n"),
        ("    a()\n", "    c()\n", "    d(7)\n", "    d(7)\n"),
        ("A =", "def last", "def take(a):\n    return 1\n\n\n", "def take(a):\n    return 2\n\n\n"),
    ],
    ids=["an element", "a key", "a statement", "a function"],
)
def test_each_side_adds_the_same_at_another_place(first: str, second: str, line: str, other: str) -> None:
    ours, theirs = changed(ROWS, (first, line + first)), changed(ROWS, (second, other + second))
    assert not is_whole(ROWS, ours, theirs)
    assert is_whole(
        ROWS, ours, changed(ROWS, (second, other.replace("7", "8").replace("take", "give") + second))
    )


NUMBERS = ("class Kind(Enum):\n    A = 1\n    B = 2\n{}", "KINDS = {{\n    'a': 1,\n    'b': 2,\n{}}}\n")


@pytest.mark.parametrize(
    ("base", "line"), list(zip(NUMBERS, ("    {} = {}\n", "    '{}': {},\n"), strict=True))
)
def test_each_side_gives_the_same_number_to_something_else(base: str, line: str) -> None:
    ours, theirs, later = (base.format(line.format(*each)) for each in (("c", 3), ("d", 3), ("d", 4)))
    assert not is_whole(base.format(""), ours, theirs)
    assert is_whole(base.format(""), ours, later)


WORK = "def lend(book):\n    ask(book)\n    if book.new:\n        note(book)\n    ring(1)\n    stamp(book)\n"


def test_one_side_adds_a_statement_to_some_that_the_other_replaces() -> None:
    loop = "    for page in book:\n        with page:\n            ring(2)\n            stamp(page)\n    shut(book)\n"
    added = f"{WORK}    post(book)\n"
    assert not is_whole(WORK, changed(WORK, ("    ring(1)\n    stamp(book)\n", loop)), added)
    assert is_whole(WORK, changed(WORK, ("    ring(1)\n", "")), added)


def test_one_side_adds_a_branch_to_a_condition_that_the_other_turns_round() -> None:
    turned = (
        "    if book.new:\n        note(book)\n",
        "    if not book.new:\n        return\n    note(book)\n",
    )
    branch = changed(WORK, ("        note(book)\n", "        note(book)\n    else:\n        sort(book)\n"))
    assert not is_whole(WORK, changed(WORK, turned), branch)


def test_one_side_removes_what_the_other_adds_once_more() -> None:
    base = f"A = 7\n\n\n{ROWS}"
    assert not is_whole(
        base, changed(base, ("A = 7\n\n\n", "")), changed(base, ("A = 7\n", "A = 7\nA = 7\n"))
    )


@pytest.mark.parametrize("used", ["    desk._ring(2)\n", '    patch("desk._ring")\n'])
def test_one_side_names_something_private_that_the_other_no_longer_names(used: str) -> None:
    base = f'{TESTS}\n\n@patch("desk." "Desk._ring")\ndef test_ring():\n    call(1)\n'
    gone = changed(base, ('@patch("desk." "Desk._ring")\ndef test_ring():\n    call(1)\n', "pass\n"))
    added = changed(base, ("    call(run)\n", f"    call(run)\n{used}"))
    assert not is_whole(base, gone, added)
    assert is_whole(base, gone, added.replace("_ring(2)", "ring(2)").replace('"desk._ring"', '"desk.ring"'))


def test_one_side_moves_the_import_that_the_other_no_longer_needs() -> None:
    base = "import desk\n\n\ndef last():\n    return desk.ring()\n\n\nif last:\n    import gate\n"
    moved = changed(
        base, ("import desk\n", "x = 1\n"), ("    import gate\n", "    import gate\n    import desk\n")
    )
    gone = changed(base, ("import desk\n", "import maps\n"), ("desk.ring()", "maps.ring()"))
    assert not is_whole(base, moved, gone)
