"""A change of several files lands in a tree that is held in memory, and what comes out is whole."""

from __future__ import annotations

import ast

from patchkit.plan.rehearse import MemoryTree
from patchkit.porting.follow import Trees
from patchkit.porting.land import Landing, land

DESK = "srt/desk.py"
BASE = b"""\
def lend(book, reader):
    if book.out:
        note(book)
        tell(reader)
    book.out = True
    return book


def note(book):
    book.noted = True


def tell(reader):
    reader.told = True
"""


def landed(base: dict[str, bytes], theirs: dict[str, bytes], ours: dict[str, bytes]) -> Landing:
    sources = {file: (base.get(file), theirs.get(file)) for file in base | theirs}
    return land(sources, Trees(MemoryTree(base), MemoryTree(ours)))


def outcomes(landing: Landing) -> list[tuple[str, str]]:
    return [(edit.outcome.value, edit.reason) for file in landing.files for edit in file.edits]


def test_a_block_of_which_nothing_would_be_left_is_left_as_it_is() -> None:
    theirs = BASE.replace(b"        note(book)\n", b"").replace(b"noted = True", b"noted = 1")
    ours = BASE.replace(b"        tell(reader)\n", b"")
    landing = landed({DESK: BASE}, {DESK: theirs}, {DESK: ours})
    ast.parse(landing.contents.get(DESK) or b"")
    assert [outcome for outcome, _ in outcomes(landing)] == ["unmet", "landed"]
    assert "is no valid Python" in outcomes(landing)[0][1]
