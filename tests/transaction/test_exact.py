"""A change is undone in a file that others changed since: the result is what these make alone, or it is refused."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.errors import ConflictError
from patchkit.transaction.exact import merge_exactly

FILE = "srt/desk.py"
BASE = """\
import os


def lend(book, reader):
    if book.out:
        note(book)
    due = today()
    book.out = True
    return due


def take(book):
    book.out = False
    return book
"""


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def undone(first: tuple[str, str], second: tuple[str, str], file: str = FILE) -> str:
    """Return the base with the second of two changes, from which the first is taken back."""
    one = changed(BASE, first)
    made = merge_exactly(file, one.encode(), changed(one, second).encode(), BASE.encode()).text
    return (made or b"").decode()


DUE = ("    due = today()\n", "    due = later()\n")
TOLD = ("    book.out = True\n", "    book.out = True\n    reader.told = True\n")
SIGNED = ("def lend(book, reader):\n", "def lend(book, reader, days=14):\n")
ASKED = ("    if book.out:\n", "    if book.out and reader:\n")
NOTED = ("        note(book)\n", "        note(book)\n        count(book)\n")
GONE = ("    book.out = True\n", "")
TAKEN = ("    return book\n", "    shelve(book)\n    return book\n")
CLASS = (
    "\n\ndef take",
    "\n\nclass Desk:\n    days = 14\n\n    def open(self):\n        return self.days\n\n\ndef take",
)
IMPORT = ("import os\n", "import os\nimport sys\n")
WAITED = ("    due = today()\n", "    if reader:\n        wait(reader)\n    due = today()\n")
NAMED = ("def lend(", "def lend_out(")
EVERY = [NAMED, DUE, TOLD, SIGNED, ASKED, NOTED, GONE, TAKEN, CLASS, IMPORT, WAITED]


@pytest.mark.parametrize("second", EVERY)
@pytest.mark.parametrize("first", EVERY)
def test_the_result_is_the_other_change_alone_or_it_is_refused(
    first: tuple[str, str], second: tuple[str, str]
) -> None:
    if second[0] not in changed(BASE, first):
        return
    try:
        made = undone(first, second)
    except ConflictError:
        at = [BASE[: BASE.index(each[0])].count("\n") for each in (first, second)]
        assert abs(at[0] - at[1]) < 2
    else:
        assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(changed(BASE, second)))


LATER = {
    "the line is another": (TOLD, ("reader.told = True", "reader.told = due")),
    "code came into its block": (
        WAITED,
        ("        wait(reader)\n", "        wait(reader)\n        reader.late = True\n"),
    ),
    "a branch came to it": (
        WAITED,
        ("        wait(reader)\n", "        wait(reader)\n    else:\n        reader.late = True\n"),
    ),
    "a method came to its class": (
        CLASS,
        ("        return self.days\n", "        return self.days\n\n    def shut(self):\n        pass\n"),
    ),
    "its name is used": (
        ("    due = today()\n", "    due = today()\n    late = due\n"),
        ("    return due\n", "    return late\n"),
    ),
}


@pytest.mark.parametrize(("first", "second"), LATER.values(), ids=LATER)
def test_what_depends_on_it_keeps_a_change_from_being_undone(
    first: tuple[str, str], second: tuple[str, str]
) -> None:
    with pytest.raises(ConflictError):
        undone(first, second)


def test_code_that_moved_is_undone_nowhere_in_silence() -> None:
    one = changed(BASE, TOLD)
    moved = changed(
        one,
        ("    reader.told = True\n", ""),
        ("    due = today()\n", "    reader.told = True\n    due = today()\n"),
    )
    with pytest.raises(ConflictError, match="edited after"):
        merge_exactly(FILE, one.encode(), moved.encode(), BASE.encode())


def test_code_that_a_person_took_out_is_undone_already() -> None:
    one = changed(BASE, TOLD)
    own = changed(BASE, TAKEN)
    assert merge_exactly(FILE, one.encode(), own.encode(), BASE.encode()).text == own.encode()


def test_lines_of_another_language_are_undone_where_nothing_touches_them() -> None:
    base = "".join(f"int v{n};\n" for n in range(9))
    one = base.replace("v2;\n", "v2;\nint w;\n")
    far, near = one.replace("int v7", "long v7"), one.replace("int w", "long w")
    assert (
        merge_exactly("a.cuh", one.encode(), far.encode(), base.encode()).text
        == base.replace("int v7", "long v7").encode()
    )
    with pytest.raises(ConflictError, match=r"a\.cuh"):
        merge_exactly("a.cuh", one.encode(), near.encode(), base.encode())
    moved = base.replace("v7;\n", "v7;\nint w;\n")
    with pytest.raises(ConflictError):
        merge_exactly("a.cuh", one.encode(), moved.encode(), base.encode())


NAMES = [f"s{number}" for number in range(8)]
Change = dict[str, str]


def changes(mark: str) -> st.SearchStrategy[Change]:
    ways = st.sampled_from(["{0}\n{1}", "{1}\n{0}", "{1}", ""])
    return st.dictionaries(st.sampled_from(NAMES), ways, min_size=1, max_size=3).map(
        lambda found: {name: way.replace("{1}", f"{name}_{mark}") for name, way in found.items()}
    )


def program(*made: Change) -> bytes:
    """Return statements of which each is as the changes have it."""
    lines = ["def f():", "    first()"]
    for name in NAMES:
        text = name
        for change in made:
            if name in change:
                text = "\n".join(
                    change[name].replace("{0}", line) if line == name else line for line in text.split("\n")
                )
        lines += [f"    {line}()" for line in text.split("\n") if line]
    return ("\n".join([*lines, "    return None"]) + "\n").encode()


@given(one=changes("a"), other=changes("b"))
def test_of_two_random_changes_the_first_is_undone_exactly_or_not_at_all(one: Change, other: Change) -> None:
    base, first, both, alone = program(), program(one), program(one, other), program(other)
    try:
        made = merge_exactly(FILE, first, both, base).text
    except ConflictError:
        return
    assert not {name for name in one if f"{name}_a".encode() in (made or b"")}
    if not one.keys() & other.keys():
        assert made == alone
