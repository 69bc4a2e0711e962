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


def test_a_name_that_one_file_lacks_keeps_no_edit_of_another_file_back() -> None:
    base = {
        DESK: BASE,
        "srt/counter.py": b"from sglang.srt.shelf import stamp\n\n\ndef sell(book):\n    return book\n",
    }
    theirs = {
        DESK: b"import os\n\n\n" + BASE.replace(b"    return book\n", b"    os.sync()\n    return book\n"),
        "srt/counter.py": base["srt/counter.py"].replace(b"return book", b"return os(stamp(book))"),
    }
    ours = {
        DESK: BASE.replace(b"book.noted", b"book.is_noted"),
        "srt/counter.py": base["srt/counter.py"] + b"\n\nopen = True\n",
    }
    landing = landed(base, theirs, ours)
    assert [file.outcome.value for file in landing.files] == ["landed", "unmet"]
    assert (landing.contents[DESK] or b"").startswith(b"import os\n")


def test_an_import_comes_to_the_file_that_a_definition_went_to() -> None:
    theirs = b"import os\n\n\n" + BASE.replace(
        b"    reader.told = True\n", b"    os.sync()\n    reader.told = True\n"
    )
    home = b"class Reader:\n    pass\n\n\n"
    at = BASE.index(b"def tell")
    ours = {DESK: BASE[:at], "srt/readers.py": home + BASE[at:]}
    landing = landed({DESK: BASE, "srt/readers.py": home}, {DESK: theirs, "srt/readers.py": home}, ours)
    assert landing.contents["srt/readers.py"] == b"import os\n" + home + theirs[theirs.index(b"def tell") :]


def test_an_import_comes_above_the_definitions_although_others_are_below() -> None:
    base = BASE + b"\nimport late\n"
    first = base.replace(b"def lend", b"import os\n\n\ndef lend")
    theirs = first.replace(b"def note(", b"@os.fspath\ndef note(")
    landing = landed({DESK: first}, {DESK: theirs}, {DESK: base})
    assert (landing.contents[DESK] or b"").startswith(b"import os\n")


def test_a_renamed_file_does_not_take_the_place_of_another() -> None:
    own = {DESK: BASE, "srt/counter.py": b"MINE = 1\n"}
    theirs = {"srt/counter.py": BASE.replace(b"= True", b"= 1")}
    landing = landed({DESK: BASE}, theirs, own)
    assert outcomes(landing) == [("conflict", "the file becomes srt/counter.py, and another is there")]
    assert landing.contents == {}


def test_a_comment_of_the_tree_stays_or_is_a_conflict() -> None:
    own = b"    book.out = True  # ours\n"
    ours = BASE.replace(b"    book.out = True\n", own)
    changed = landed({DESK: BASE}, {DESK: BASE.replace(b"out = True", b"out = 1")}, {DESK: ours})
    assert b"book.out = 1" in (changed.contents[DESK] or b"")
    assert b"# ours" in (changed.contents[DESK] or b"")
    gone = landed({DESK: BASE}, {DESK: BASE.replace(b"    book.out = True\n", b"")}, {DESK: ours})
    assert outcomes(gone) == [("conflict", "a comment of this tree would be lost")]
    file = landed({DESK: BASE}, {}, {DESK: ours})
    assert [outcome for outcome, _ in outcomes(file)] == ["conflict"]
