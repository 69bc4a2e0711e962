"""A change is undone in a file that others changed since: the result is what these make alone, or it is refused."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.change.edits import Outcome
from patchkit.change.exact import NotPythonError, RefusedError, merged
from patchkit.change.follow import Trees
from patchkit.change.land import land
from patchkit.tree.tree import MemoryTree

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


def undone(first: tuple[str, str], second: tuple[str, str]) -> str:
    """Return the base with the second of two changes, from which the first is taken back."""
    one = changed(BASE, first)
    return merged(FILE, one.encode(), BASE.encode(), changed(one, second).encode()).text.decode()


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
    except RefusedError:
        indices = [BASE[: BASE.index(each[0])].count("\n") for each in (first, second)]
        assert abs(indices[0] - indices[1]) < 2
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
    with pytest.raises(RefusedError):
        undone(first, second)


def test_code_that_moved_is_undone_nowhere_in_silence() -> None:
    one = changed(BASE, TOLD)
    moved = changed(
        one,
        ("    reader.told = True\n", ""),
        ("    due = today()\n", "    reader.told = True\n    due = today()\n"),
    )
    with pytest.raises(RefusedError):
        merged(FILE, one.encode(), BASE.encode(), moved.encode())


def test_code_that_a_person_took_out_is_undone_already() -> None:
    one = changed(BASE, TOLD)
    own = changed(BASE, TAKEN)
    assert merged(FILE, one.encode(), BASE.encode(), own.encode()).text == own.encode()


def test_a_function_that_a_person_took_out_goes_with_its_call_between_lines_that_changed() -> None:
    helper = ("\n\ndef take", "\n\ndef tell(reader):\n    reader.told = True\n\n\ndef take")
    one = changed(BASE, helper, ("    return due\n", "    tell(reader)\n    return due\n"))
    own = ("    return due\n", "    return due + 1\n")
    ours = changed(one, helper[::-1], own)
    assert merged(FILE, one.encode(), BASE.encode(), ours.encode()).text.decode() == changed(BASE, own)


def test_lines_of_another_language_are_undone_where_nothing_touches_them() -> None:
    base = "".join(f"int v{n};\n" for n in range(9))
    one = base.replace("v2;\n", "v2;\nint w;\n")
    far, near = one.replace("int v7", "long v7"), one.replace("int w", "long w")
    made = merged("a.cuh", one.encode(), base.encode(), far.encode()).text
    assert made == base.replace("int v7", "long v7").encode()
    moved = base.replace("v7;\n", "v7;\nint w;\n")
    for ours in (near, moved):
        with pytest.raises(RefusedError):
            merged("a.cuh", one.encode(), base.encode(), ours.encode())


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
        made = merged(FILE, first, base, both).text
    except RefusedError:
        return
    assert not {name for name in one if f"{name}_a".encode() in made}
    if not one.keys() & other.keys():
        assert made == alone
    assert merged(FILE, first, base, made).text == made


HOOK = """\
class Desk:
    days = 14

    def hook(self):
        first(self)
        second(self)
        return self
"""
NO_HOOK = "class Desk:\n    days = 14\n"
GUARD = "def lend(b):\n    n = b.total\n    if b.out:\n        n = bound(b)\n        log(n)\n    return n\n"
NO_GUARD = "def lend(b):\n    n = b.total\n    return n\n"
OBSTACLES = {
    "a statement inside a method of the change": (
        HOOK,
        NO_HOOK,
        ("second(self)\n", "second(self)\n        own()\n"),
        4,
    ),
    "an edited line of a method of the change": (HOOK, NO_HOOK, ("first(self)", "first(self, own=True)"), 4),
    "a comment inside a method of the change": (HOOK, NO_HOOK, ("second(self)", "second(self)  # ours"), 4),
    "a line that was taken out of a block of the change": (GUARD, NO_GUARD, ("        log(n)\n", ""), 3),
    "a statement between two that the change made": (
        "def lend(b):\n    x = h(b)\n    return x\n",
        "def lend(b):\n    y = g(b)\n    return y\n",
        ("    return x", "    use(b)\n    return x"),
        2,
    ),
    "one of two statements of the change is gone": (
        "def lend(b):\n    open(b)\n    first(b)\n    second(b)\n    return b\n",
        "def lend(b):\n    open(b)\n    return b\n",
        ("    first(b)\n", ""),
        3,
    ),
    "a statement of the change is there twice": (
        "def lend(b):\n    open(b)\n    first(b)\n    return b\n",
        "def lend(b):\n    open(b)\n    return b\n",
        ("    first(b)\n", "    first(b)\n    own(b)\n    first(b)\n"),
        3,
    ),
    "a second definition of what the change edits": (
        GUARD,
        NO_GUARD,
        ("    return n\n", "    return n\n\n\ndef lend(b):\n    return b\n"),
        1,
    ),
    "a statement moved into another block": (
        "def lend(b):\n    first(b)\n    if b:\n        own(b)\n    return b\n",
        "def lend(b):\n    if b:\n        own(b)\n    return b\n",
        ("    first(b)\n    if b:\n        own(b)\n", "    if b:\n        own(b)\n        first(b)\n"),
        4,
    ),
}


@pytest.mark.parametrize(("base", "theirs", "own", "line"), OBSTACLES.values(), ids=OBSTACLES)
def test_what_the_change_does_not_find_as_it_left_it_is_refused_with_its_line(
    base: str, theirs: str, own: tuple[str, str], line: int
) -> None:
    with pytest.raises(RefusedError) as refusal:
        merged(FILE, base.encode(), theirs.encode(), changed(base, own).encode())
    assert refusal.value.line == line


# What is gone is already as a port wants it, and that is its outcome.
PORTED = OBSTACLES.keys() - {"one of two statements of the change is gone"}


@pytest.mark.parametrize("obstacle", sorted(PORTED))
def test_what_a_revert_refuses_a_port_refuses_or_says(obstacle: str) -> None:
    base, theirs, own, _ = OBSTACLES[obstacle]
    before, after, ours = base.encode(), theirs.encode(), changed(base, own).encode()
    landing = land({FILE: (before, after)}, Trees(MemoryTree({FILE: before}), MemoryTree({FILE: ours})))
    outcomes = {edit.outcome for file in landing.files for edit in file.edits}
    assert outcomes - {Outcome.LANDED, Outcome.ALREADY}


HEADS = {
    "if": (
        "if b:",
        "if asked(b, (b.out or b.due)):",
        "if asked(\n        b,\n        (b.out\n        or b.due),\n    ):",
    ),
    "with": ("with b:", "with asked(b):", "with (\n        asked(b)\n    ):"),
    "for": ("for b in b:", "for b in asked(b, 1):", "for b in asked(\n        b,\n        1,\n    ):"),
}


@pytest.mark.parametrize(("before", "line", "lines"), HEADS.values(), ids=HEADS)
def test_a_header_that_a_formatter_laid_out_anew_is_undone_and_one_with_a_comment_of_its_own_is_not(
    before: str, line: str, lines: str
) -> None:
    def body(head: str) -> bytes:
        return f"def lend(b):\n    {head}\n        note(b)\n    return b\n".encode()

    for made, formatted in ((line, lines), (lines, line)):
        assert merged(FILE, body(made), body(before), body(formatted)).text == body(before)
    with pytest.raises(RefusedError):
        merged(FILE, body(line), body(before), body(lines.replace("\n", "  # mine\n", 1)))


def test_a_comment_and_blank_lines_above_what_goes_stay() -> None:
    for own in ("    # ours\n", "\n\n", "\n    # ours\n"):
        ours = GUARD.replace("    if", f"{own}    if")
        made = merged(FILE, GUARD.encode(), NO_GUARD.encode(), ours.encode()).text
        assert made.decode() == NO_GUARD.replace("    return", f"{own}    return")


def test_a_change_of_the_last_line_leaves_a_line_that_came_behind_it() -> None:
    base, theirs = b"class Desk:\n    days = 1\n    open = 2", b"class Desk:\n    days = 1\n    open = 3"
    made = merged(FILE, base, theirs, base + b"\n    own = 4\n").text
    assert made == theirs + b"\n    own = 4\n"


@pytest.mark.parametrize("ours", [b"class (", b"\x00", b"# coding: nonsense\n", b"\xff\xfe", b"return 1\n"])
def test_a_file_that_is_not_python_is_named_so(ours: bytes) -> None:
    with pytest.raises(NotPythonError):
        merged(FILE, GUARD.encode(), NO_GUARD.encode(), ours + GUARD.encode())


def test_a_file_in_another_encoding_keeps_every_byte() -> None:
    start = b"# coding: latin-1\nname = 'caf\xe9'\n\n\n"
    base, theirs = start + GUARD.encode(), start + NO_GUARD.encode()
    ours = base.replace(b"name =", b"own = 1\nname =")
    assert merged(FILE, base, theirs, ours).text == theirs.replace(b"name =", b"own = 1\nname =")


def test_each_line_keeps_its_end() -> None:
    base, theirs = GUARD.replace("\n", "\r\n").encode(), NO_GUARD.replace("\n", "\r\n").encode()
    mine = b"own = 1\n"
    assert merged(FILE, base, theirs, base + mine).text == theirs + mine


@pytest.mark.parametrize("kept", ["", "    # mine\n"])
def test_a_blank_line_that_a_comment_of_the_change_stood_for_returns_also_where_the_comment_is_gone(
    kept: str,
) -> None:
    base = "def lend(book):\n    note(book)\n    # why\n    return book\n"
    theirs = "def lend(book):\n    note(book)\n\n    return book\n"
    ours = base.replace("    # why\n", kept)
    result = merged(FILE, base.encode(), theirs.encode(), ours.encode()).text.decode()
    assert result == theirs.replace("\n    return", f"\n{kept}    return")


def test_a_blank_line_below_the_removed_first_statements_of_a_block_does_not_stay_at_its_top() -> None:
    base = "class Desk:\n    low = 1\n    high = 2\n    days = 14\n"
    ours = base.replace("    high = 2\n", "    high = 2\n\n    # mine\n    mine = 3\n")
    theirs = "class Desk:\n    days = 14\n"
    result = merged(FILE, base.encode(), theirs.encode(), ours.encode()).text.decode()
    assert result == "class Desk:\n    # mine\n    mine = 3\n    days = 14\n"


MATCH = """\
def lend(book):
    match book:
        # the first
        case 1:
            note(book)
            out(book)
        case {"days": days} if days:
            due(days)
        case _:
            keep(book)
"""


@pytest.mark.parametrize(
    "change",
    [
        ("            out(book)\n", "            told(book)\n            out(book)\n"),
        ("        case _:\n", "        case 2:\n            pass\n        case _:\n"),
        ("if days:", "if days > 1:"),
        ("    match book:", "    match book.kind:"),
        ('        case {"days": days} if days:\n            due(days)\n', ""),
    ],
)
@pytest.mark.parametrize(
    "own",
    [
        ("            note(book)\n", "            log(book)\n            note(book)\n"),
        ("            keep(book)\n", "            keep(book)\n            shelve(book)\n"),
        ("        # the first\n", "        case 0:\n            pass\n        # the first\n"),
    ],
)
def test_cases_of_a_match_are_merged_one_by_one(change: tuple[str, str], own: tuple[str, str]) -> None:
    versions = [changed(MATCH, *made).encode() for made in ([], [change], [own])]
    assert merged(FILE, *versions).text.decode() == changed(MATCH, change, own)
