"""A change of several files is made in a tree in memory, and the result is complete."""

from __future__ import annotations

import ast
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.change.follow import Trees
from patchkit.change.land import Landing, land
from patchkit.tree.tree import MemoryTree

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


LATIN = b"# coding: latin-1\n"


def landed(
    base: dict[str, bytes], theirs: dict[str, bytes], ours: dict[str, bytes], name: str = ""
) -> Landing:
    sources = {file: (base.get(file), theirs.get(file)) for file in base | theirs}
    return land(sources, Trees(MemoryTree(base), MemoryTree(ours)), name)


def outcomes(landing: Landing) -> list[tuple[str, str]]:
    return [(edit.outcome.value, edit.reason) for file in landing.files for edit in file.edits]


def test_a_name_that_an_edit_in_conflict_would_define_is_said_with_its_site() -> None:
    base = b"def lend(book):\n    shelf = find(book)\n    check(book)\n    log(book)\n    return book\n"
    theirs = base.replace(b"shelf = find(", b"shelf, row = find_row(").replace(
        b"log(book)", b"log(book, row)"
    )
    theirs = theirs.replace(b"return book", b"return book, row")
    ours = base.replace(b"find(book)", b"other(book, shelves)")
    found = outcomes(landed({DESK: base}, {DESK: theirs}, {DESK: ours}))
    assert sorted(outcome for outcome, _ in found) == ["conflict", "unmet", "unmet"]
    assert {reason for outcome, reason in found if outcome == "unmet"} == {
        "row is not defined, since the edit of lend is not made"
    }


TYPED = b"""\
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shelf import Book


def lend(book: Book):
    return book
"""


def test_an_annotation_that_is_evaluated_in_this_tree_needs_what_only_type_checkers_import() -> None:
    theirs = TYPED + b"\n\ndef take(book: Book):\n    return book\n"
    ours = TYPED.replace(b"from __future__ import annotations\n\n", b"").replace(b": Book):", b": 'Book'):")
    assert outcomes(landed({DESK: TYPED}, {DESK: theirs}, {DESK: ours})) == [
        ("unmet", "Book is not defined, but imported for type checkers")
    ]
    assert outcomes(landed({DESK: TYPED}, {DESK: theirs}, {DESK: TYPED + b"\n\nown = 1\n"})) == [
        ("landed", "")
    ]


@pytest.mark.parametrize(("taken", "name"), [("Book", b"Book"), ("Book as Item", b"Item")])
def test_code_that_runs_needs_what_this_tree_imports_only_for_type_checkers(taken: str, name: bytes) -> None:
    ours = TYPED.replace(b"import Book", f"import {taken}".encode()).replace(b": Book", b": " + name)
    base = ours.replace(b"from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from", b"from")
    theirs = base.replace(b"    return book", b"    assert isinstance(book, " + name + b")\n    return book")
    assert outcomes(landed({DESK: base}, {DESK: theirs}, {DESK: ours})) == [
        ("unmet", f"{name.decode()} is not defined, but imported for type checkers")
    ]


def test_a_block_of_which_nothing_would_be_left_is_left_as_it_is() -> None:
    theirs = BASE.replace(b"        note(book)\n", b"").replace(b"noted = True", b"noted = 1")
    theirs = theirs.replace(b"    reader.told = True\n", b"    reader.told = True\n    reader.late = False\n")
    ours = BASE.replace(b"        tell(reader)\n", b"")
    ours = ours.replace(b"    reader.told = True\n", b"    reader.own = 1\n    reader.told = True\n")
    landing = landed({DESK: BASE}, {DESK: theirs}, {DESK: ours})
    ast.parse(landing.contents.get(DESK) or b"")
    assert [outcome for outcome, _ in outcomes(landing)] == ["unmet", "landed", "landed"]
    assert "not be valid Python" in outcomes(landing)[0][1]


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "found"),
    [
        ({DESK: BASE}, {}, {DESK: BASE}, ("landed", "")),
        (
            {DESK: BASE},
            {},
            {DESK: BASE + b"x = 1\n"},
            ("conflict", "the change deletes the file, and this tree's version differs"),
        ),
        ({DESK: BASE}, {}, {}, ("already", "")),
        ({}, {DESK: BASE}, {}, ("landed", "")),
        ({}, {DESK: BASE}, {DESK: BASE}, ("already", "")),
        (
            {},
            {DESK: BASE},
            {DESK: b"x = 1\n"},
            ("conflict", "the change adds the file, and this tree has another"),
        ),
        ({DESK: BASE}, {DESK: BASE + b"x = 1\n"}, {}, ("no-site", f"the tree has no {DESK}")),
        (
            {DESK: b"\xff\n"},
            {DESK: b"\xfe\n"},
            {DESK: b"\xfd\n"},
            ("conflict", "the file is not text, and this tree's version differs"),
        ),
        ({DESK: b"\xff\n"}, {DESK: b"\xfe\n"}, {DESK: b"\xff\n"}, ("landed", "")),
        ({DESK: b"\xff\n"}, {DESK: b"\xfe\n"}, {DESK: b"\xfe\n"}, ("already", "")),
        ({DESK: b"\xff\n"}, {}, {DESK: b"\xff\n"}, ("landed", "")),
        ({}, {DESK: b"\xff\n"}, {DESK: b"\xff\n"}, ("already", "")),
    ],
)
def test_a_file_that_comes_goes_or_is_no_text(
    base: dict[str, bytes], theirs: dict[str, bytes], ours: dict[str, bytes], found: tuple[str, str]
) -> None:
    landing = landed(base, theirs, ours)
    assert outcomes(landing) == [found]
    made = {DESK: theirs.get(DESK)} if found[0] == "landed" else {}
    assert landing.contents == made


@pytest.mark.parametrize(
    ("ours", "made"),
    [
        (("own = 1", "check(book)", "log(book)", "own = 2", "log(book)", "own = 3"), 2),
        (("check(book)", "log(book)", "own = 2", "log(book)", "own = 3"), 1),
        (("log(book)", "own = 2", "check(book)", "log(book)", "own = 3"), 3),
        (("check(book)", "log(book)", "own = 2", "log(book)", "close(book)"), None),
    ],
)
def test_a_statement_that_is_there_twice_is_changed_between_more_of_its_neighbours(
    ours: tuple[str, ...], made: int | None
) -> None:
    def function(*lines: str) -> bytes:
        return "".join(
            f"{line}\n" for line in ("def lend(book):", *(f"    {each}" for each in lines))
        ).encode()

    base = function("check(book)", "log(book)", "close(book)")
    landing = landed(
        {DESK: base}, {DESK: base.replace(b"log(book)", b"log(book, 1)")}, {DESK: function(*ours)}
    )
    if made is None:
        assert outcomes(landing) == [("conflict", "this code is there 2 times")]
    else:
        assert outcomes(landing) == [("landed", "")]
        assert landing.contents == {DESK: function(*ours[:made], "log(book, 1)", *ours[made + 1 :])}


def test_a_name_that_a_header_in_conflict_would_bind_is_said_with_its_site() -> None:
    base = b"def lend(book, days):\n    check(book)\n    return book\n\n\ndef check(book):\n    pass\n"
    theirs = base.replace(b"(book, days)", b"(book, days, row)").replace(b"return book", b"return book, row")
    ours = base.replace(b"(book, days)", b"(book, **days)")
    assert sorted(outcomes(landed({DESK: base}, {DESK: theirs}, {DESK: ours})))[1:] == [
        ("unmet", "row is not defined, since the edit of lend is not made")
    ]


def test_what_this_tree_has_in_a_form_of_its_own_is_kept_where_nothing_is_adapted() -> None:
    base = BASE.replace(
        b"    book.out = True\n", b"    book.out = True\n    if reader:\n        a()\n        b()\n"
    )
    ours = base.replace(b"        b()\n", b"")
    trees = Trees(MemoryTree({DESK: base}), MemoryTree({DESK: ours}))
    landing = land({DESK: (base, BASE)}, trees)
    assert [outcome for outcome, _ in outcomes(landing)] == ["changed"]
    assert landing.contents[DESK] == BASE
    landing = land({DESK: (base, BASE)}, trees, adapting=False)
    assert [outcome for outcome, _ in outcomes(landing)] == ["conflict"]
    assert landing.contents == {}


def test_a_statement_that_this_tree_has_elsewhere_in_the_function_is_not_made_again() -> None:
    line = b"book.days = clamp(book.days + extra, least, most)\n"
    head = b"extra = least = most = 1\n\n\ndef clamp(*of):\n    return of\n\n\n"
    base = head + BASE
    theirs = base.replace(b"    return book\n", b"    " + line + b"    return book\n", 1)
    ours = base.replace(b"        tell(reader)\n", b"        tell(reader)\n        " + line)
    landing = landed({DESK: base}, {DESK: theirs}, {DESK: ours})
    ((outcome, reason),) = outcomes(landing)
    assert (outcome, landing.contents) == ("conflict", {})
    assert reason == f"this tree has a variant of it: `{line.decode().strip()}`"


def test_of_two_edits_of_a_function_the_one_that_leaves_a_statement_unreachable_is_refused() -> None:
    base = b"def lend(book):\n    start(book)\n    book.days = 14\n    book.out = True\n    note(book)\n"
    theirs = base.replace(b"start(book)", b"start(book, 1)").replace(b"note(book)", b"return book")
    landing = landed({DESK: base}, {DESK: theirs}, {DESK: base + b"    own(book)\n"})
    assert [outcome for outcome, _ in outcomes(landing)] == ["landed", "conflict"]
    assert landing.contents[DESK] == base.replace(b"start(book)", b"start(book, 1)") + b"    own(book)\n"


OS = b"\n\ndef os(book):\n    return book\n"


def test_a_name_that_one_file_lacks_keeps_no_edit_of_another_file_back() -> None:
    base = {
        DESK: BASE,
        "srt/counter.py": b"from sglang.srt.shelf import stamp\n\n\ndef sell(book):\n    return book\n" + OS,
    }
    theirs = {
        DESK: b"import os\n\n\n" + BASE.replace(b"    return book\n", b"    os.sync()\n    return book\n"),
        "srt/counter.py": base["srt/counter.py"].replace(b"return book", b"return os(stamp(book))", 1),
    }
    ours = {
        DESK: BASE.replace(b"book.noted", b"book.is_noted"),
        "srt/counter.py": base["srt/counter.py"].removesuffix(OS) + b"\n\nopen = True\n",
    }
    landing = landed(base, theirs, ours)
    assert [file.outcome.value for file in landing.files] == ["landed", "unmet"]
    assert (landing.contents[DESK] or b"").startswith(b"import os\n")


def test_an_import_comes_to_the_file_that_a_definition_went_to() -> None:
    theirs = b"import os\n\n\n" + BASE.replace(
        b"    reader.told = True\n", b"    os.sync()\n    reader.told = True\n"
    )
    home = b"class Reader:\n    pass\n\n\n"
    index = BASE.index(b"def tell")
    ours = {DESK: BASE[:index], "srt/readers.py": home + BASE[index:]}
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
    assert outcomes(landing) == [
        ("conflict", "the change renames the file to srt/counter.py, and this tree has another")
    ]
    assert landing.contents == {}


def test_a_comment_of_the_tree_stays_or_is_a_conflict() -> None:
    own = b"    book.out = True  # ours\n"
    ours = BASE.replace(b"    book.out = True\n", own)
    changed = landed({DESK: BASE}, {DESK: BASE.replace(b"out = True", b"out = 1")}, {DESK: ours})
    assert b"book.out = 1" in (changed.contents[DESK] or b"")
    assert b"# ours" in (changed.contents[DESK] or b"")
    gone = landed({DESK: BASE}, {DESK: BASE.replace(b"    book.out = True\n", b"")}, {DESK: ours})
    assert outcomes(gone) == [("conflict", "applying it would delete a comment of this tree")]
    file = landed({DESK: BASE}, {}, {DESK: ours})
    assert [outcome for outcome, _ in outcomes(file)] == ["conflict"]


RENAMED = "srt/counter.py"


def test_a_renamed_file_is_renamed_also_where_another_edit_of_the_change_cannot_be_made() -> None:
    helper = b"\n\ndef nobody(book):\n    return 1\n"
    other = {"srt/readers.py": b"def read(book):\n    return book\n" + helper}
    theirs = {
        RENAMED: BASE,
        "srt/readers.py": other["srt/readers.py"].replace(b"return book", b"return nobody(book)"),
    }
    own = {DESK: BASE, "srt/readers.py": b"import os\n\n\n" + other["srt/readers.py"].removesuffix(helper)}
    landing = landed({DESK: BASE} | other, theirs, own)
    assert [(file.file, file.outcome.value) for file in landing.files] == [
        (DESK, "landed"),
        ("srt/readers.py", "unmet"),
    ]
    assert landing.contents == {RENAMED: BASE, DESK: None}


def test_a_file_that_is_no_python_and_drifted_is_renamed_with_what_changes_in_it() -> None:
    kernel, new = "srt/a.cuh", "srt/b.cuh"
    base = b"".join(b"int v%d;\n" % number for number in range(9))
    ours = base.replace(b"int v8;", b"long v8;")
    for theirs in (base, base.replace(b"int v2;", b"long v2;")):
        landing = landed({kernel: base}, {new: theirs}, {kernel: ours})
        wanted = theirs.replace(b"int v8;", b"long v8;")
        assert landing.contents == {new: wanted, kernel: None}
        assert landing.files[0].outcome.value == "landed"


def test_a_file_that_has_its_new_name_already_is_said_to_have_it() -> None:
    landing = landed({DESK: BASE}, {RENAMED: BASE}, {RENAMED: BASE})
    assert landing.contents == {}
    assert outcomes(landing) == [("already", f"already renamed to {RENAMED}")]


@pytest.mark.parametrize(
    ("theirs", "ours", "made"),
    [
        (b"# one\nx = 1\n", b"# ours\n# one\n", b"# ours\n# one\nx = 1\n"),
        (b"x = 1\n# one\n", b"# ours\n", b"# ours\nx = 1\n"),
    ],
)
def test_code_that_comes_to_a_file_of_comments_stands_below_them(
    theirs: bytes, ours: bytes, made: bytes
) -> None:
    landing = landed({DESK: b"# one\n"}, {DESK: theirs}, {DESK: ours})
    assert landing.files[0].is_whole
    assert landing.contents[DESK] == made


def test_what_would_compile_to_nothing_is_left_although_it_can_be_read() -> None:
    base = b"def f(a, b):\n    return a\n\n\nx = 1\n"
    theirs = base.replace(b"f(a, b)", b"f(a, b, *, c)")
    ours = base.replace(b"f(a, b)", b"f(a, b, d, *c)")
    landing = landed({DESK: base}, {DESK: theirs}, {DESK: ours})
    compile(landing.contents.get(DESK) or ours, DESK, "exec")
    assert not landing.files[0].is_whole


def test_a_file_that_comes_and_is_there_with_other_comments_says_so() -> None:
    landing = landed({}, {DESK: b"# why\n" + BASE}, {DESK: BASE})
    assert (landing.contents, [outcome for outcome, _ in outcomes(landing)]) == ({}, ["kept"])


def marked(base: bytes, theirs: bytes, ours: bytes) -> str:
    return (landed({DESK: base}, {DESK: theirs}, {DESK: ours}, "77").marked.get(DESK) or b"").decode()


def sides(text: str) -> tuple[str, str, str]:
    """Return a file with its conflicts as they were found, as they were expected, and as they are wanted."""
    found: tuple[list[str], list[str], list[str]] = [], [], []
    side = None
    for line in text.splitlines(keepends=True):
        if line.startswith("<<<<<<< "):
            side = 0
        elif line.startswith(("||||||| ", "=======")) and side is not None:
            side += 1
        elif line.startswith(">>>>>>> "):
            side = None
        else:
            for each in found if side is None else found[side : side + 1]:
                each.append(line)
    one, two, three = ("".join(lines) for lines in found)
    return one, two, three


CALL = (b"    book.out = True\n", b"    book.out = later(book)\n")
CONFLICTS = {
    "another statement": (CALL, (CALL[0], b"    book.out = sooner(book, reader)\n")),
    "a statement that is not there": (CALL, (CALL[0], b"    while book:\n        book.shelve()\n")),
    "a header": (
        (b"    if book.out:\n", b"    if book.out > 2:\n"),
        (b"    if book.out:\n", b"    if book.out < 3:\n        count()\n"),
    ),
    "a signature": (
        (b"def tell(reader):", b"def tell(reader, k=1):"),
        (b"def tell(reader):", b"def tell(reader, k=2):"),
    ),
    "what goes": (
        (b"    book.noted = True\n", b"    pass\n"),
        (b"    book.noted = True\n", b"    book.noted = stamp()\n"),
    ),
    "a definition": (
        (b"def tell(", b"def count(book):\n    return 1\n\n\ndef tell("),
        (b"def tell(", b"def count(card):\n    return 2\n\n\ndef tell("),
    ),
    "a value": ((b"def note(", b"FEE = 2\n\n\ndef note("), (b"def note(", b"FEE = 3\n\n\ndef note(")),
    "a docstring": (
        (b"def note(book):\n", b'def note(book):\n    """One."""\n'),
        (b"def note(book):\n", b'def note(book):\n    """Two."""\n'),
    ),
}


@pytest.mark.parametrize(("change", "drift"), CONFLICTS.values(), ids=CONFLICTS)
def test_every_side_of_a_conflict_stands_for_the_same_so_that_each_is_a_whole_file(
    change: tuple[bytes, bytes], drift: tuple[bytes, bytes]
) -> None:
    ours = BASE.replace(*drift)
    text = marked(BASE, BASE.replace(*change), ours)
    found, expected, wanted = sides(text)
    assert found == ours.decode()
    for each in (expected, wanted):
        compile(each, DESK, "exec")
        assert all(f"def {name}(" in each for name in ("lend", "note", "tell"))
    assert change[1].decode().strip().splitlines()[-1] in wanted
    assert text.count("<<<<<<< ") == 1


def test_conflicts_of_one_function_are_marked_one_by_one() -> None:
    theirs = BASE.replace(*CALL).replace(b"        tell(reader)\n", b"        tell(1)\n")
    ours = BASE.replace(CALL[0], b"    book.out = 3\n").replace(
        b"        tell(reader)\n", b"        tell(2)\n"
    )
    text = marked(BASE, theirs, ours)
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("<<<<<<<")] == [
        "edit-1)",
        "edit-2)",
    ]
    assert sides(text)[0] == ours.decode()


@pytest.mark.parametrize(
    ("files", "theirs", "ours"),
    [
        ({}, {DESK: BASE}, {DESK: b"x = 1\n"}),
        ({DESK: BASE}, {}, {DESK: BASE + b"\n\nx = 1\n"}),
        ({DESK: BASE}, {RENAMED: BASE}, {DESK: BASE, RENAMED: b"x = 1\n"}),
        ({DESK: BASE}, {DESK: BASE.replace(b"told = True", b"told = 1")}, {"srt/other.py": b"x = 1\n"}),
        ({"a.cuh": b"int a;\n"}, {"a.cuh": b"long a;\n"}, {"a.cuh": b"char a;\n"}),
    ],
    ids=["a new file", "a deleted file", "a renamed file", "a file that is gone", "no Python"],
)
def test_an_edit_that_gets_no_markers_says_so(
    files: dict[str, bytes], theirs: dict[str, bytes], ours: dict[str, bytes]
) -> None:
    landing = landed(files, theirs, ours, "77")
    assert landing.marked == {}
    assert all("it has no conflict markers" in reason for _, reason in outcomes(landing))


@pytest.mark.parametrize(
    "ours",
    [LATIN + BASE, LATIN + BASE + b"name = 'caf\xe9'\n", BASE + b"name = 'caf\xe9'\n"],
    ids=["coding line", "latin-1", "no coding line"],
)
def test_a_file_that_is_not_utf_8_in_this_tree_is_a_conflict(ours: bytes) -> None:
    theirs = BASE.replace(b"reader.told = True", b"reader.told = 'na\xc3\xafve'")
    landing = landed({DESK: BASE}, {DESK: theirs}, {DESK: ours})
    why = "this tree's version is not UTF-8; save it as UTF-8, without a coding line, and try again"
    assert (outcomes(landing), landing.contents) == ([("conflict", why)], {})


def test_a_definition_is_not_followed_to_a_file_that_is_not_utf_8() -> None:
    home, index = LATIN + b"class Reader:\n    pass\n\n\n", BASE.index(b"def tell")
    theirs = BASE.replace(b"reader.told = True", b"reader.told = 'na\xc3\xafve'")
    landing = landed({DESK: BASE}, {DESK: theirs}, {DESK: BASE[:index], "srt/reader.py": home + BASE[index:]})
    assert "srt/reader.py" not in landing.contents


@pytest.mark.parametrize("coding", [b"# coding: utf8\n", b"# coding: ascii\n", b"# coding: nonsense\n"])
def test_a_file_with_another_coding_line_is_merged(coding: bytes) -> None:
    theirs = BASE.replace(b"reader.told = True", b"reader.told = 1")
    landing = landed({DESK: BASE}, {DESK: theirs}, {DESK: coding + BASE})
    assert landing.contents == {DESK: coding + theirs}


def test_a_layout_of_the_change_that_is_there_is_already_there() -> None:
    base = BASE + b"\n\nnumbers = [1,2]\n"
    theirs = base.replace(b"[1,2]", b"[1, 2]")
    landing = landed({DESK: base}, {DESK: theirs}, {DESK: theirs + b"own = 1\n"})
    assert (outcomes(landing), landing.contents) == ([("already", "")], {})


def test_an_import_is_of_the_module_that_has_the_name_whatever_methods_are_called_so() -> None:
    shelf = {"srt/shelf.py": b"def stamp(book):\n    return book\n"}
    base = b"from sglang.srt.shelf import stamp\n\n\n" + BASE.replace(b"out = True", b"out = stamp(book)")
    theirs = base.replace(b"    book.noted = True\n", b"    stamp(book)\n    book.noted = True\n")
    ours = {
        DESK: BASE,
        "srt/wax.py": shelf["srt/shelf.py"],
        "srt/rack.py": b"class Rack:\n    def stamp(self, book):\n        return book\n",
    }
    landing = landed({DESK: base} | shelf, {DESK: theirs} | shelf, ours)
    assert (landing.contents[DESK] or b"").startswith(b"from sglang.srt.wax import stamp\n")


def test_a_file_is_followed_beside_one_that_is_empty() -> None:
    theirs = BASE.replace(b"told = True", b"told = 1")
    landing = landed({DESK: BASE}, {DESK: theirs}, {"srt/counter.py": BASE, "srt/new.py": b""})
    assert landing.contents == {"srt/counter.py": theirs}


def test_an_import_of_what_a_module_imported_is_from_where_that_is_now() -> None:
    rack = b"class Rack:\n    def stamp(self, book):\n        return book\n"
    base = {DESK: b"x = 1\n", "srt/shelf.py": b"from sglang.srt.rack import Rack\n", "srt/rack.py": rack}
    line = b"from sglang.srt.shelf import Rack\n\nx = Rack\n"
    landing = landed(base, base | {DESK: line}, {DESK: base[DESK], "srt/wax.py": rack})
    assert landing.contents == {DESK: line.replace(b"shelf", b"wax")}


def test_a_file_is_not_followed_to_one_of_thrice_its_length() -> None:
    theirs = BASE.replace(b"told = True", b"told = 1")
    own = b"".join(b"own_%d = 'of this tree alone'\n" % number for number in range(12))
    near = landed({DESK: BASE}, {DESK: theirs}, {"srt/counter.py": BASE + b"x = 1\n"})
    assert [file.onto for file in near.files] == ["srt/counter.py"]
    far = landed({DESK: BASE}, {DESK: theirs}, {"srt/counter.py": BASE + own})
    assert [file.onto for file in far.files] == [DESK]


LENT = b"    book.out = True\n    return book\n"


def test_a_statement_that_comes_into_a_block_is_a_conflict_where_it_is_another_here() -> None:
    theirs = BASE.replace(LENT, b"    if reader:\n        book.out = True\n    return book\n")
    ours = BASE.replace(b"book.out = True\n", b"book.out = later(book)\n")
    landing = landed({DESK: BASE}, {DESK: theirs}, {DESK: ours})
    assert [outcome for outcome, _ in outcomes(landing)] == ["conflict"]
    assert landing.contents == {}


@pytest.mark.parametrize("gone", [b"        note(book)\n", b"        tell(reader)\n"])
def test_statements_that_are_replaced_by_others_are_a_conflict_where_one_of_them_is_gone(gone: bytes) -> None:
    theirs = BASE.replace(
        b"        note(book)\n        tell(reader)\n", b"        print(book, reader)\n        open(book)\n"
    )
    landing = landed({DESK: BASE}, {DESK: theirs}, {DESK: BASE.replace(gone, b"")})
    assert {outcome for outcome, _ in outcomes(landing)} == {"conflict"}
    assert landing.contents == {}


@pytest.mark.parametrize(
    ("ours", "made"),
    [
        (
            b"    with shelf:\n        book.out = True\n    return book\n",
            b"    with shelf:\n        book.out = True\n    print(book)\n    return book\n",
        ),
        (
            b"    book.out = True\n    with shelf:\n        return book\n",
            b"    book.out = True\n    print(book)\n    with shelf:\n        return book\n",
        ),
    ],
    ids=["what is above", "what is below"],
)
def test_what_comes_between_statements_of_which_one_went_into_a_block_stays_beside_the_other(
    ours: bytes, made: bytes
) -> None:
    theirs = BASE.replace(LENT, b"    book.out = True\n    print(book)\n    return book\n")
    own = b"shelf = open('shelf')\n\n\n" + BASE
    landing = landed({DESK: BASE}, {DESK: theirs}, {DESK: own.replace(LENT, ours)})
    assert (landing.contents[DESK] or b"").decode() == own.replace(LENT, made).decode()


def test_blank_lines_come_and_go_as_in_a_merge_by_lines() -> None:
    theirs = BASE.replace(b"    book.out = True\n", b"\n    book.out = True\n\n")
    ours = BASE.replace(b"reader.told = True", b"reader.told = 1")
    landing = landed({DESK: BASE}, {DESK: theirs}, {DESK: ours})
    assert landing.contents[DESK] == theirs.replace(b"reader.told = True", b"reader.told = 1")


SHELF_OF_BASE = b"LIMIT = 3\n\n\ndef stamp(book):\n    book.stamped = True\n    return book\n"
WAX_OF_OURS = SHELF_OF_BASE + b"\n\ndef melt(book):\n    return book\n"

CHANGES = [
    (b"        tell(reader)\n", b""),
    (b"    book.out = True\n", b"    book.out = 1\n    log(book)\n"),
    (b"    if book.out:\n", b"    if reader is None:\n        return None\n    if book.out:\n"),
    (b"def lend(book, reader):", b"def lend(book, reader, days=14):"),
    (b"\n\ndef note(book):\n    book.noted = True\n", b""),
    (b"    reader.told = True\n", b"    # Once.\n    reader.told = True\n    reader.asked = False\n"),
    (b"def tell(", b"@once\ndef tell("),
    (b"    return book\n", b"    log(book, own)\n    return book\n"),
    (b"        note(book)\n", b"        note(book)\n    elif reader:\n        tell(reader)\n"),
    (b"    book.noted = True\n", b"    book.noted = True\n    note = 1\n"),
    (b"\n\ndef tell", b"\n\nfrom sglang.srt.shelf import stamp\n\n\ndef tell"),
]
OWN = [
    (b"def lend(book, reader):\n", b"def lend(book, reader):\n    own(book)\n"),
    (b"    return book\n", b"    own(reader)\n    return book\n"),
    (b"        note(book)\n", b"        if reader:\n            note(book)\n"),
    (b"book.noted = True", b"book.noted = own"),
    (b"    book.out = True\n", b"    # Ours.\n    book.out = True\n"),
    (b"def tell(reader):\n", b"def tell(reader, own=None):\n"),
    (b"        note(book)\n", b"        note(book)\n    elif own:\n        log(book)\n"),
    (b"    return book\n", b"    log(book, reader)\n    return book\n"),
    (b"    book.noted = True\n", b"    note = 2\n    book.noted = True\n"),
    (
        b"        note(book)\n        tell(reader)\n",
        b"        if own:\n            note(book)\n            tell(reader)\n",
    ),
]
KNOWN = b"log = own = once = print\n\n\n"


def changed(changes: list[tuple[bytes, bytes]]) -> bytes:
    text = KNOWN + BASE
    for old, new in changes:
        text = text.replace(old, new)
    return text


@given(st.sets(st.sampled_from(CHANGES), min_size=1), st.sets(st.sampled_from(OWN)))
def test_a_change_that_landed_lands_again_and_changes_nothing(
    change: set[tuple[bytes, bytes]], own: set[tuple[bytes, bytes]]
) -> None:
    base, theirs, ours = KNOWN + BASE, changed(sorted(change)), changed(sorted(own))
    shelf, wax = {"srt/shelf.py": SHELF_OF_BASE}, {"srt/wax.py": WAX_OF_OURS}
    made = landed({DESK: base} | shelf, {DESK: theirs} | shelf, {DESK: ours} | wax).contents.get(DESK) or ours
    again = landed({DESK: base} | shelf, {DESK: theirs} | shelf, {DESK: made} | wax)
    assert again.contents in ({}, {DESK: made})


def test_an_import_that_new_code_needs_comes_below_those_of_the_tree() -> None:
    base = b"import os\n\n\n" + BASE.replace(b"out = True", b"out = os.name")
    theirs = base.replace(b"noted = True", b"noted = os.name")
    landing = landed({DESK: base}, {DESK: theirs}, {DESK: b"import abc\nimport sys\n\n\n" + BASE})
    assert (landing.contents[DESK] or b"").startswith(b"import abc\nimport sys\nimport os\n")


def test_a_block_that_shares_one_line_with_that_of_the_change_is_another_block() -> None:
    block = b"    if book.out:\n        first(book)\n        second(book)\n        third(book)\n        note(book)\n"
    own = b"    if reader and not holiday(reader):\n        fourth(1)\n        fifth(reader, 2)\n        sixth()\n"
    base = BASE.replace(b"    book.out = True\n", block)
    theirs = base.replace(b"third(book)\n        note(book)\n", b"third(book)\n        note(book, 1)\n")
    ours = BASE.replace(b"    book.out = True\n", own + b"        note(book)\n")
    landing = landed({DESK: base}, {DESK: theirs}, {DESK: ours})
    assert [outcome for outcome, _ in outcomes(landing)] == ["conflict"]
    assert landing.contents == {}


def test_an_edit_of_a_header_that_is_not_made_shows_the_header_alone() -> None:
    signature = b"def note(book):", b"def note(book, k=nobody):"
    statement = b"    reader.told = True\n", b"    reader.told = nowhere\n"
    names = b"nobody = nowhere = 1\n"
    theirs = BASE.replace(*signature).replace(*statement)
    landing = landed({DESK: names + BASE}, {DESK: names + theirs}, {DESK: BASE + b"\n\nx = 1\n"})
    shown = [(edit.outcome.value, edit.base_text, edit.wanted) for edit in landing.files[0].edits]
    assert shown == [
        ("unmet", *(f"{line.decode()}\n" for line in signature)),
        ("unmet", *(line.decode().lstrip() for line in statement)),
    ]


def test_a_file_that_goes_and_one_that_comes_with_half_of_its_lines_are_one_that_is_renamed() -> None:
    old, new = {"srt/a.cuh": b"int a;\nint b;\n"}, {"srt/b.cuh": b"int a;\nint c;\n"}
    assert [file.file for file in landed(old, new, old).files] == ["srt/a.cuh"]
    other = {"srt/b.cuh": b"int a;\nint c;\nint d;\n"}
    assert [file.file for file in landed(old, other, old).files] == ["srt/a.cuh", "srt/b.cuh"]


@pytest.mark.parametrize(
    ("line", "home"),
    [
        ("from sglang.srt.shelf import stamp", "from sglang.srt.wax import stamp"),
        ("from sglang.srt.shelf import LIMIT", "from sglang.srt.wax import LIMIT"),
        ("from sglang.srt.shelf import stamp as press", "from sglang.srt.wax import stamp as press"),
        ("import sglang.srt.shelf as press", "import sglang.srt.wax as press"),
        ("from sglang.srt import shelf", "from sglang.srt import wax as shelf"),
        ("from sglang.srt.shelf import nowhere", ""),
        ("from torch import shelf", ""),
    ],
)
@pytest.mark.parametrize(
    "place", ["{}\n", "if x:\n    {}\n", "def f():\n    {}\n", "try:\n    {}\nexcept E:\n    pass\n"]
)
def test_an_import_comes_from_where_this_tree_has_what_it_imports(line: str, home: str, place: str) -> None:
    base = {DESK: b"x = E = OSError\n", "srt/shelf.py": SHELF_OF_BASE * 5}
    ours = {DESK: base[DESK], "srt/wax.py": SHELF_OF_BASE * 5}
    for file in (DESK, "srt/new.py"):
        theirs = base | {file: base[DESK] + place.format(line).encode()}
        landing = landed(base, theirs, ours)
        assert landing.contents[file] == base[DESK] + place.format(home or line).encode()
        note = f"`{line}` is `{home}` in this tree"
        assert [file_landed.notes for file_landed in landing.files if file_landed.file == file] == [
            [note] if home else []
        ]
        again = landed(base, theirs, ours | {file: landing.contents[file] or b""})
        assert {outcome for outcome, _ in outcomes(again)} == {"already"}


def test_an_import_comes_from_where_this_tree_imports_what_the_change_imports_beside_it() -> None:
    line = b"from sglang.srt.shelf import stamp\n\n\nx = stamp(1)\n"
    base = {DESK: line, "srt/shelf.py": SHELF_OF_BASE}
    theirs = base | {DESK: b"from sglang.srt.shelf import LIMIT, stamp\n\n\nx = stamp(LIMIT)\n"}
    other = {"srt/own.py": b"LIMIT = 4\n"}
    ours = {DESK: line.replace(b"shelf", b"wax"), "srt/wax.py": WAX_OF_OURS} | other
    text = landed(base, theirs, ours).contents[DESK] or b""
    assert text.splitlines()[:2] == [b"from sglang.srt.wax import LIMIT", b"from sglang.srt.wax import stamp"]


def test_an_import_of_a_module_that_the_change_renames_is_of_its_new_name() -> None:
    line = b"from sglang.srt.shelf import stamp\n\n\nx = stamp(1)\n"
    base = {DESK: line, "srt/shelf.py": SHELF_OF_BASE}
    theirs = {DESK: line.replace(b"shelf", b"rack"), "srt/rack.py": SHELF_OF_BASE}
    landing = landed(base, theirs, dict(base))
    assert landing.contents == {**theirs, "srt/shelf.py": None}
    assert [file.notes for file in landing.files if file.file == DESK] == [[]]


@pytest.mark.parametrize("is_whole", [True, False])
def test_code_that_went_out_of_the_serving_package_is_followed_if_the_base_is_whole(is_whole: bool) -> None:
    root = {"__init__.py": b""} if is_whole else {}
    base = {"srt/shelf.py": SHELF_OF_BASE, DESK: b"x = 1\n"} | root
    theirs = base | {
        "srt/shelf.py": SHELF_OF_BASE.replace(b"= True", b"= 1"),
        DESK: b"from sglang.srt.shelf import LIMIT\n\nx = LIMIT\n",
    }
    ours = {DESK: b"x = 1\n", "kernels/wax.py": b"import os\n\n\n" + WAX_OF_OURS} | root
    landing = landed(base, theirs, ours)
    if is_whole:
        assert landing.contents == {
            "kernels/wax.py": b"import os\n\n\n" + WAX_OF_OURS.replace(b"= True", b"= 1"),
            DESK: b"from sglang.kernels.wax import LIMIT\n\nx = LIMIT\n",
        }
    else:
        assert "kernels/wax.py" not in landing.contents


@pytest.mark.parametrize("all_else", [b"from sglang.srt.wax import *\n", b"def __getattr__(name): ...\n"])
def test_an_import_from_a_module_that_may_have_all_names_stays(all_else: bytes) -> None:
    base = {DESK: b"x = 1\n", "srt/__init__.py": all_else, "srt/wax.py": WAX_OF_OURS}
    line = b"from sglang.srt import stamp\n"
    landing = landed(base, base | {DESK: base[DESK] + line}, base | {DESK: b"x = 2\n"})
    assert landing.contents == {DESK: b"x = 2\n" + line}


@pytest.mark.parametrize("shelf", [{"srt/shelf.py": SHELF_OF_BASE}, {}])
def test_an_import_of_what_the_change_adds_stays(shelf: dict[str, bytes]) -> None:
    base = {DESK: b"x = 1\n"} | shelf
    line = b"from sglang.srt.shelf import melt\n"
    theirs = {DESK: base[DESK] + line, "srt/shelf.py": WAX_OF_OURS}
    ours = {DESK: b"x = 2\n", "srt/other.py": WAX_OF_OURS} | shelf
    landing = landed(base, theirs, ours)
    assert landing.contents[DESK] == b"x = 2\n" + line


def test_a_name_that_the_file_of_the_change_lacks_too_keeps_no_edit_back() -> None:
    theirs = BASE.replace(b"noted = True", b"noted = os.name")
    landing = landed({DESK: BASE}, {DESK: theirs}, {DESK: BASE + b"\n\nx = 1\n"})
    assert [outcome for outcome, _ in outcomes(landing)] == ["landed"]


STRUCTS = b"""\
import msgspec


class Card(msgspec.Struct, kw_only=True):
    number: int = 0


class Pass(Card):
    days: int = 14
"""
DATACLASSES = b"""\
from dataclasses import dataclass


@dataclass
class Card:
    number: int = 0


@dataclass
class Pass(Card):
    days: int = 14
"""


@pytest.mark.parametrize(
    ("old", "new", "outcome"),
    [
        (b"\n\nclass Pass", b"\n\nclass Day(Card, kw_only=True):\n    at: int\n\n\nclass Pass", "conflict"),
        (b"class Pass(Card)", b"class Pass(Card, frozen=True)", "conflict"),
        (b"14\n", b"14\n    fees: list = msgspec.field(default_factory=list)\n", "conflict"),
        (b"14\n", b"14\n    fee: int = 3\n", "landed"),
        (b"14\n", b"14\n\n    def fee(self):\n        return 3\n", "landed"),
    ],
    ids=["a class", "a keyword", "a field", "a plain field", "a method"],
)
@pytest.mark.parametrize("is_beside", [True, False])
def test_what_depends_on_the_kind_of_a_base_class_is_a_conflict_where_that_is_another(
    old: bytes, new: bytes, outcome: str, is_beside: bool
) -> None:
    assert old in STRUCTS
    theirs = STRUCTS.replace(old, new)
    if is_beside:
        landing = landed({DESK: STRUCTS}, {DESK: theirs}, {DESK: DATACLASSES})
    else:  # The base class is in another file, and this one is as it was.
        index = STRUCTS.index(b"class Pass")
        head = b"import msgspec\nfrom sglang.srt.card import Card\n\n\n"
        base = {"srt/card.py": STRUCTS[:index], DESK: head + STRUCTS[index:]}
        index = theirs.index(b"class Day") if b"class Day" in theirs else theirs.index(b"class Pass")
        landing = landed(base, base | {DESK: head + theirs[index:]}, base | {"srt/card.py": DATACLASSES})
    assert {found for found, _ in outcomes(landing)} == {outcome}


def test_a_class_of_a_base_class_of_the_same_kind_comes() -> None:
    theirs = STRUCTS + b"\n\nclass Day(Card, kw_only=True):\n    at: int\n"
    ours = STRUCTS.replace(b"number: int = 0", b"number: str = ''")
    assert outcomes(landed({DESK: STRUCTS}, {DESK: theirs}, {DESK: ours})) == [("landed", "")]


@pytest.mark.parametrize(
    "line", [b"from sglang.srt.desks import lend\n", b"from sglang.srt.desk import lend\n"]
)
def test_a_file_that_nothing_imports_any_more_is_said(line: bytes) -> None:
    root = {"__init__.py": b"", "srt/main.py": b"from sglang.srt.desk import lend\n"}
    theirs = BASE.replace(b"told = True", b"told = 1")
    landing = landed(root | {DESK: BASE}, root | {DESK: theirs}, root | {DESK: BASE, "srt/main.py": line})
    said = ("changed", "nothing in this tree imports the file any more")
    found = [outcome for outcome in outcomes(landing) if outcome[0] != "already"]
    assert found == [("landed", ""), *([said] if b"desks" in line else [])]


@pytest.mark.parametrize("is_file_gone", [True, False])
@pytest.mark.parametrize("homes", [1, 2])
def test_a_value_of_a_module_that_moved_is_changed_where_it_is(is_file_gone: bool, homes: int) -> None:
    base = {DESK: b"LIMIT = 3\n\n\n" + BASE}
    theirs = {DESK: base[DESK].replace(b"LIMIT = 3", b"LIMIT = 4")}
    moved = {f"srt/home_{index}.py": b"# Ours.\nLIMIT = 3\nOWN = 1\n" for index in range(homes)}
    landing = landed(base, theirs, moved | ({} if is_file_gone else {DESK: BASE}))
    if homes == 1:
        assert landing.contents == {"srt/home_0.py": b"# Ours.\nLIMIT = 4\nOWN = 1\n"}
        assert landing.files[0].notes == ["LIMIT is LIMIT in srt/home_0.py of this tree"]
        made = {"srt/home_0.py": b"LIMIT = 4\n"} | ({} if is_file_gone else {DESK: BASE})
        assert {found for found, _ in outcomes(landed(base, theirs, made))} == {"already"}
    else:
        assert (landing.contents, landing.files[0].is_whole) == ({}, False)


@pytest.mark.parametrize("blank", [b"", b"\n", b"\n\n"])
def test_blank_lines_that_come_come_once(blank: bytes) -> None:
    base = BASE + b"\n\nx = 1\ny = 2\n"
    theirs = base.replace(b"y = 2", b"\n\ny = 2").replace(b"told = True", b"told = 1")
    ours = base.replace(b"y = 2", blank + b"y = 2").replace(
        b"    return book", b"    own = 1\n    return book"
    )
    made = landed({DESK: base}, {DESK: theirs}, {DESK: ours}).contents[DESK] or b""
    assert made.endswith(b"x = 1\n" + (blank or b"\n\n") + b"y = 2\n")
    assert landed({DESK: base}, {DESK: theirs}, {DESK: made}).contents in ({}, {DESK: made})


def test_a_file_that_is_as_the_change_found_it_gets_its_new_classes_whole() -> None:
    base = b"import os\n\n\nclass Card:\n    def use(self, a):\n        return a\n"
    low = b"class Low:\n    n = 1\n\n\nclass Card(Low):\n"
    put = b"    def put(self, sizes):\n        for s in sizes:\n            os.sync(s)\n"
    theirs = b"import os\n\n\n" + low + put
    landing = landed({DESK: base}, {DESK: theirs}, {DESK: base})
    assert (landing.contents, outcomes(landing)) == ({DESK: theirs}, [("landed", "")])


def test_an_import_that_the_change_wraps_is_wrapped_beside_others_of_the_tree() -> None:
    line = b"from sglang.srt.shelf import stamp\n"
    base = {DESK: line + b"import os\n\n" + BASE, "srt/shelf.py": b"def stamp():\n    return 1\n"}
    wrapped = b"try:\n    %sexcept ImportError:\n    stamp = None\n" % line
    theirs = base | {DESK: base[DESK].replace(line, wrapped)}
    ours = base | {DESK: base[DESK].replace(b"import os\n", b"import os\nimport io\n")}
    assert landed(base, theirs, ours).contents[DESK] == ours[DESK].replace(line, wrapped)


def test_statements_that_went_together_into_a_block_are_each_changed_there() -> None:
    one = "shelf = Shelf(\n    plan=plan,\n    width=width,\n)\n"
    two = f"if width:\n{textwrap.indent(one.replace('shelf = Shelf', 'rack = Rack'), '    ')}else:\n    rack = None\n"
    base = f"class Desk:\n    def open(self, plan, width):\n{textwrap.indent(one + two, ' ' * 8)}"
    block = f"if self.is_first:\n{textwrap.indent(one + two, '    ')}else:\n    rack = None\n"
    ours = f"class Desk:\n    def open(self, plan, width):\n{textwrap.indent(block, ' ' * 8)}"
    before, after = b"plan=plan", b"plan=None"
    made = landed({DESK: base.encode()}, {DESK: base.encode().replace(before, after)}, {DESK: ours.encode()})
    assert made.contents[DESK] == ours.encode().replace(before, after)
