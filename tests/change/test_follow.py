"""Where another tree has a file, a definition or what an import names: in its place, moved or renamed, or unclear."""

from __future__ import annotations

import pytest

from patchkit.change.follow import Trees, alike, lookalikes, module_files
from patchkit.change.outline import outline
from patchkit.tree.tree import MemoryTree, Tree

DESK, SHELF, NEW = "srt/desk.py", "srt/shelf.py", "srt/new/counter.py"


def lines(word: str, count: int = 20) -> bytes:
    return "".join(
        f"def {word}_{number}(book):\n    return {word}s[{number}]\n" for number in range(count)
    ).encode()


BOOKS, CARDS = lines("book"), lines("card")
NEARLY = BOOKS.replace(b"[3]", b"[33]")


def file_in(ours: dict[str, bytes], base: bytes = BOOKS) -> str | None:
    return Trees(MemoryTree({DESK: base}), MemoryTree(ours)).file(DESK)


@pytest.mark.parametrize(
    ("ours", "file"),
    [
        ({DESK: b"x = 1\n", NEW: BOOKS}, DESK),
        ({NEW: BOOKS, SHELF: CARDS}, NEW),
        ({NEW: NEARLY}, NEW),
        ({NEW: CARDS}, None),
        ({NEW: BOOKS, SHELF: NEARLY}, None),
        ({NEW: BOOKS + CARDS + CARDS}, None),
        # One of its name counts for more than one that is more like it.
        ({NEW: BOOKS, "srt/new/desk.py": NEARLY}, "srt/new/desk.py"),
        ({NEW: BOOKS, "srt/new/desk.py": CARDS}, None),
        ({"other/counter.py": BOOKS}, None),
        ({"srt/new/counter.txt": BOOKS}, None),
        ({}, None),
    ],
)
def test_a_file_is_in_its_place_or_the_only_new_one_with_nearly_its_lines(
    ours: dict[str, bytes], file: str | None
) -> None:
    assert file_in(ours) == file


def test_a_short_file_is_not_looked_for_by_its_lines() -> None:
    short = b"x = 1\ny = 2\n"
    assert file_in({NEW: short}, short) is None


def test_a_file_that_the_change_has_not_is_not_looked_for() -> None:
    trees = Trees(MemoryTree({SHELF: BOOKS}), MemoryTree({SHELF: BOOKS, NEW: BOOKS}))
    assert trees.file(DESK) is None


@pytest.mark.parametrize(("is_whole", "file"), [(True, "kernels/counter.py"), (False, None)])
def test_code_that_left_the_serving_package_is_found_from_a_whole_tree(
    is_whole: bool, file: str | None
) -> None:
    root = {"__init__.py": b""} if is_whole else {}
    base, ours = (
        {DESK: BOOKS, "old/same.py": BOOKS, **root},
        {"kernels/counter.py": BOOKS, "old/same.py": BOOKS},
    )
    assert Trees(MemoryTree(base), MemoryTree(ours)).file(DESK) == file


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        (b"a\nb\n", b"a\nb\n", 1.0),
        (b"a\nb\n", b"b\na\n", 1.0),
        (b"a\nb\nc\nd\n", b"a\nb\nc\ne\n", 0.75),
        (b"a\n", b"b\n", 0.0),
        (b"a\n", b"a\n" * 9, 0.0),
        (b"a\n" * 9, b"a\n", 0.0),
        (b"", b"", 0.0),
    ],
)
def test_the_likeness_of_two_files(one: bytes, other: bytes, share: float) -> None:
    assert alike(one, other) == share


LEND = b"def lend(book):\n    note(book)\n    book.out = True\n    return book\n"
METHOD = b"class Desk:\n" + b"".join(b"    " + line + b"\n" for line in LEND.splitlines())
OTHER = b"def lend(money):\n    count(money)\n    bank.fill(money)\n    return None\n"


@pytest.mark.parametrize(
    ("ours", "home"),
    [
        ({SHELF: LEND}, (SHELF, "lend")),
        ({SHELF: LEND.replace(b"note(book)", b"log(book)")}, (SHELF, "lend")),
        ({SHELF: METHOD}, (SHELF, "Desk.lend")),
        ({SHELF: OTHER}, None),
        ({SHELF: OTHER, NEW: LEND}, (NEW, "lend")),
        ({SHELF: LEND, NEW: LEND}, None),
        ({SHELF: b"class lend:\n    pass\n"}, None),
        ({SHELF: LEND.replace(b"lend", b"give")}, None),
        ({SHELF: b"async " + LEND}, (SHELF, "lend")),
        ({SHELF: LEND + b"x = (\n"}, None),
        ({f"srt/f{number}.py": LEND for number in range(21)}, None),
        # It is another one, which the change's own tree has as well.
        ({"srt/both.py": LEND}, None),
        ({}, None),
    ],
)
def test_the_place_to_which_a_definition_has_moved(
    ours: dict[str, bytes], home: tuple[str, str] | None
) -> None:
    base = {DESK: LEND, "srt/both.py": LEND}
    item = outline(LEND.decode()).find("lend")
    assert item is not None
    found = Trees(MemoryTree(base), MemoryTree(ours)).definition(DESK, item)
    assert (None if found is None else (found[0], found[1].site)) == home


@pytest.mark.parametrize(
    ("ours", "home"),
    [
        ({SHELF: b"days = 14\n"}, SHELF),
        ({SHELF: b"days = 15\n"}, None),
        ({SHELF: b"class Desk:\n    days = 14\n"}, None),
        ({SHELF: b"days = 14\n", NEW: b"days = 14\n"}, None),
        ({SHELF: b"days == 14\n"}, None),
        ({"srt/both.py": b"days = 14\n"}, None),
    ],
)
def test_the_place_to_which_a_value_of_a_module_has_moved(ours: dict[str, bytes], home: str | None) -> None:
    base = {DESK: b"days = 14\n", "srt/both.py": b"days = 14\n"}
    (item,) = outline("days = 14\n").children
    found = Trees(MemoryTree(base), MemoryTree(ours)).definition(DESK, item)
    assert (None if found is None else found[0]) == home


LINE = "from sglang.srt.desk import lend"


@pytest.mark.parametrize(
    ("line", "ours", "now"),
    [
        (LINE, {DESK: LEND}, LINE),
        (LINE, {DESK: b"", SHELF: LEND}, "from sglang.srt.shelf import lend"),
        (f"{LINE} as give", {DESK: b"", SHELF: LEND}, "from sglang.srt.shelf import lend as give"),
        (LINE, {DESK: b"from elsewhere import *\n"}, LINE),
        (LINE, {DESK: b"def __getattr__(name): ...\n"}, LINE),
        (LINE, {DESK: b"lender = 1\n"}, ""),
        (LINE, {DESK: b"", SHELF: OTHER}, ""),
        (LINE, {NEW: BOOKS + LEND}, "from sglang.srt.new.counter import lend"),
        (LINE, {DESK: b"", SHELF: LEND, NEW: LEND}, ""),
        (
            "from sglang.srt.desk import days",
            {DESK: b"", SHELF: b"days = 15\n"},
            "from sglang.srt.shelf import days",
        ),
        ("from sglang.srt.desk import days", {DESK: b"", SHELF: b"days: int = 1\n", NEW: b"days = 2\n"}, ""),
        # A module.
        ("import sglang.srt.desk", {DESK: b""}, "import sglang.srt.desk"),
        ("import sglang.srt.desk as desk", {NEW: BOOKS + LEND}, "import sglang.srt.new.counter as desk"),
        ("import sglang.srt.desk", {NEW: BOOKS + LEND}, ""),
        ("from sglang.srt import desk", {NEW: BOOKS + LEND}, "from sglang.srt.new import counter as desk"),
        ("from sglang.srt import desk as d", {NEW: BOOKS + LEND}, "from sglang.srt.new import counter as d"),
        ("from sglang.srt import desk", {"srt/desk/__init__.py": b""}, "from sglang.srt import desk"),
        ("from sglang.srt import desk", {DESK: b""}, "from sglang.srt import desk"),
        # What the change brings, and what is not of the tree.
        ("from sglang.srt.desk import coming", {DESK: b""}, "from sglang.srt.desk import coming"),
        ("from sglang.srt.gone import lend", {SHELF: LEND}, "from sglang.srt.shelf import lend"),
        ("from sglang.srt.gone import nothing", {SHELF: LEND}, ""),
        ("import torch", {}, "import torch"),
        ("from torch import nn", {}, "from torch import nn"),
    ],
)
def test_an_import_as_another_tree_has_it(line: str, ours: dict[str, bytes], now: str) -> None:
    base = {DESK: BOOKS + LEND + b"days = 14\n"}
    assert Trees(MemoryTree(base), MemoryTree(ours)).importing(line) == now


def test_the_home_of_the_names_beside_it_tells_that_of_a_name() -> None:
    base = {DESK: b"from a import lend, take\n"}
    ours = {SHELF: b"from a import lend, take\n", DESK: b""}
    trees = Trees(MemoryTree(base), MemoryTree(ours))
    assert trees.importing(LINE) == ""
    assert trees.importing(LINE, ["from sglang.srt.shelf import take"]) == "from sglang.srt.shelf import lend"
    assert trees.importing(LINE, ["from sglang.srt.shelf import other"]) == ""


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("import sglang.srt.desk", ("srt/desk.py", "srt/desk/__init__.py")),
        ("import sglang.srt.desk as d", ("srt/desk.py", "srt/desk/__init__.py")),
        (
            LINE,
            ("srt/desk.py", "srt/desk/__init__.py", "srt/desk/lend.py", "srt/desk/lend/__init__.py"),
        ),
    ],
)
def test_the_files_that_an_import_may_be_of(line: str, files: tuple[str, ...]) -> None:
    assert module_files(line) == files


@pytest.mark.parametrize(
    ("onto", "is_orphan"),
    [
        ({"srt/main.py": b"x = 1\n"}, True),
        ({"srt/main.py": b"from sglang.srt.shelf.desk import lend\n"}, False),
        ({"srt/main.py": b"from sglang.srt.shelf import (\n    row,\n    desk,\n)\n"}, False),
        ({"srt/main.py": b"import shelf.desktop\n"}, True),
        ({"srt/shelf/main.py": b"from . import desk\n"}, False),
        ({"srt/shelf/main.py": b"a_desk = 1\n"}, True),
        ({"srt/other/main.py": b"desk = 1\n"}, True),
    ],
)
def test_a_file_that_nothing_imports_any_more(onto: dict[str, bytes], is_orphan: bool) -> None:
    file = "srt/shelf/desk.py"
    base = {"__init__.py": b"", file: LEND, "srt/main.py": b"from sglang.srt.shelf.desk import lend\n"}
    ours = MemoryTree({file: LEND, **onto})
    assert Trees(MemoryTree(base), ours).is_orphan(file, file) is is_orphan
    # Of some files of a tree, or where nothing imported it before, it is not known.
    del base["__init__.py"]
    assert not Trees(MemoryTree(base), ours).is_orphan(file, file)
    assert not Trees(MemoryTree({"__init__.py": b"", file: LEND}), ours).is_orphan(file, file)
    assert not Trees(MemoryTree({"__init__.py": b"", **base}), ours).is_orphan("desk.py", "desk.py")


def test_what_looks_like_a_changed_file_or_definition_is_other_files_and_those_of_its_name() -> None:
    near = LEND.replace(b"note", b"log")
    tree: Tree = MemoryTree(
        {
            DESK: BOOKS + LEND,
            SHELF: NEARLY,
            NEW: CARDS,
            "srt/near.py": METHOD,
            "srt/far.py": OTHER,
            "srt/note.txt": BOOKS,
        }
    )
    before = BOOKS + LEND
    after = before.replace(b"    note(book)", b"    log(book)")
    assert lookalikes(tree, DESK, before, after) == [SHELF, "srt/near.py::Desk.lend"]
    assert lookalikes(tree, DESK, before, before) == [SHELF]
    assert lookalikes(tree, DESK, None, after) == []
    assert lookalikes(tree, DESK, before, None)[:1] == [SHELF]
    assert lookalikes(tree, DESK, LEND, near) == ["srt/near.py::Desk.lend"]
    assert lookalikes(tree, DESK, before + b"x = (\n", after) == [SHELF]
