"""A file of a change that landed uses what the change has in another file, of which nothing or not all landed."""

from __future__ import annotations

import pytest

from patchkit.change.follow import Trees
from patchkit.change.land import land
from patchkit.porting.dependencies import dependencies_of
from patchkit.tree.tree import MemoryTree

DESK, SHELF, FORK = "srt/desk.py", "srt/shelf.py", "srt/own.py"
USER = b"""\
from sglang.srt import shelf
from sglang.srt.shelf import Shelf, stamp


class Desk:
    def __init__(self):
        self.shelf = Shelf()

    def lend(self, book):
        book.out = True
        return book

    def take(self, book, shelf: Shelf):
        book.out = False
        return stamp(book)
"""
HELPERS = b"""\
class Shelf:
    def __init__(self):
        self.books = []

    def place(self, book):
        self.books.append(book)
        return len(self.books)


def stamp(book):
    book.stamped = True
    return book
"""
WAX = b"from sglang.srt.wax import melt\n\n\n"
OTHERS = b"""\
class Rack:
    def place(self, book):
        return book


def stamp(book):
    return book
"""


def found(
    used: tuple[bytes, bytes], helpers: bytes, ours: dict[str, bytes] | None = None, base: bytes = HELPERS
) -> list[tuple[str, str]]:
    """Port a change of a file and of its helpers, and return the findings: files with messages."""
    assert USER.count(used[0]) == 1, used
    sources = {
        DESK: (USER, USER.replace(*used)),
        SHELF: (base, helpers),
    }
    before = {DESK: USER, SHELF: base, "srt/wax.py": b"def melt():\n    pass\n"}
    tree = MemoryTree({DESK: USER, SHELF: HELPERS, **(ours or {})})
    landing = land(sources, Trees(MemoryTree(before), tree))
    return [(finding.file, finding.message) for finding in dependencies_of(tree, sources, landing)]


SEALED = HELPERS + b"\n\ndef seal(book):\n    return melt(book)\n"
METHOD = HELPERS.replace(
    b"\n\ndef stamp", b"\n    def seal(self, book):\n        return melt(book)\n\n\ndef stamp"
)
LEND = b"        book.out = True\n        return book\n"


@pytest.mark.parametrize(
    ("code", "helpers", "text"),
    [
        (b"        shelf.seal(book)\n", WAX + SEALED, "`seal`"),
        (
            b"        if book:\n            from sglang.srt.shelf import seal\n\n            seal(book)\n",
            WAX + SEALED,
            "`seal`",
        ),
        (b"        self.shelf.seal(book)\n", WAX + METHOD, "`seal` of Shelf"),
        (b"        book.near.seal(book)\n", WAX + METHOD, "`seal` of Shelf"),
    ],
    ids=["name-of-a-module", "import-under-a-condition", "method", "method-of-anything"],
)
def test_a_call_of_a_helper_that_did_not_land_is_a_finding(code: bytes, helpers: bytes, text: str) -> None:
    ((file, message),) = found((LEND, code + LEND), helpers, base=WAX + HELPERS)
    assert file == DESK
    assert text in message
    assert SHELF in message


@pytest.mark.parametrize(
    ("code", "old", "new", "text"),
    [
        (
            b"        self.shelf.row += 1\n",
            b"self.books = []\n",
            b"self.books = []\n        self.row = 0\n",
            "`row` of Shelf",
        ),
        (
            b"        self.shelf.place(book, row=1)\n",
            b"def place(self, book):",
            b"def place(self, book, row=0):",
            "`row` of place",
        ),
        (
            b"        self.shelf.place(book, 1)\n",
            b"def place(self, book):",
            b"def place(self, book, row=0):",
            "`row` of place",
        ),
        (
            b"        self.shelf = Shelf(rows=3)\n",
            b"def __init__(self):",
            b"def __init__(self, rows=1):",
            "`rows` of Shelf",
        ),
    ],
    ids=["attribute", "parameter", "parameter-by-position", "parameter-of-a-constructor"],
)
def test_a_use_of_what_a_class_that_is_not_there_would_have_got_is_a_finding(
    code: bytes, old: bytes, new: bytes, text: str
) -> None:
    ((file, message),) = found((LEND, code + LEND), HELPERS.replace(old, new), {SHELF: OTHERS})
    assert file == DESK
    assert text in message


@pytest.mark.parametrize(
    ("receiver", "name", "is_one"),
    [
        (b"shelf", b"seal", True),
        (b"book", b"seal", True),
        (b"self", b"seal", False),
        # What many objects have is told by the name of the object.
        (b"shelf", b"append", True),
        (b"book", b"append", False),
        (b"book", b"items", False),
        (b"the_shelf", b"items", True),
    ],
)
def test_a_call_of_a_method_that_did_not_land_is_told_by_its_object_if_others_have_one(
    receiver: bytes, name: bytes, is_one: bool
) -> None:
    helpers = METHOD.replace(b"def seal", b"def " + name)
    code = b"        %s.%s(book)\n" % (receiver, name)
    uses = found((LEND, code + LEND), WAX + helpers, base=WAX + HELPERS)
    assert [name.decode() in message for _, message in uses] == [True] * is_one


@pytest.mark.parametrize(
    ("stored", "is_one"),
    [(b"self.row = 0", True), (b"book.near = self.row = 0", True), (b"book.row = 0", False)],
)
def test_an_attribute_is_that_of_a_class_if_its_methods_set_it_on_self(stored: bytes, is_one: bool) -> None:
    helpers = HELPERS.replace(b"self.books = []\n", b"self.books = []\n        %s\n" % stored)
    uses = found((LEND, b"        note(self.shelf.row)\n" + LEND), helpers, {SHELF: OTHERS})
    assert any("`row` of Shelf" in message for _, message in uses) is is_one


def test_where_all_of_a_change_landed_there_is_no_finding() -> None:
    code = b"        self.shelf.seal(shelf.seal(book))\n"
    helpers = (METHOD + SEALED.removeprefix(HELPERS)).replace(b"melt(book)", b"book")
    assert found((LEND, code + LEND), helpers) == []


def test_a_name_that_the_tree_has_by_itself_is_no_finding() -> None:
    own = {SHELF: HELPERS + b"\n\ndef seal(wax):\n    return wax\n"}
    assert found((LEND, b"        shelf.seal(book)\n" + LEND), WAX + SEALED, own, WAX + HELPERS) == []


def test_lines_that_were_there_before_the_port_are_no_finding() -> None:
    own = USER.replace(LEND, b"        book.far.seal(book)\n" + LEND)
    assert found((b"book.out = False", b"book.out = None"), WAX + METHOD, {DESK: own}, WAX + HELPERS) == []


GONE = HELPERS[: HELPERS.index(b"\n\ndef stamp")]
OWN = b"from sglang.srt.shelf import stamp\n\n\ndef keep(book):\n    return stamp(book)\n"


def test_a_file_of_the_fork_that_imports_what_the_port_removes_is_a_finding() -> None:
    used = b"        return stamp(book)\n", b"        return book\n"
    ours = {FORK: OWN, DESK: USER.replace(b"import Shelf, stamp", b"import Shelf").replace(*used)}
    ((file, message),) = found(used, GONE, ours)
    assert file == FORK
    assert "`stamp`" in message


def test_a_use_that_was_not_taken_away_of_what_the_port_removes_is_a_finding() -> None:
    used = b"        return stamp(book)\n", b"        return book\n"
    ours = {DESK: USER.replace(b"return stamp(book)", b"return stamp(book, True) or book")}
    assert {file for file, _ in found(used, GONE, ours)} == {DESK}


def test_a_method_that_the_port_removes_and_a_fork_calls_is_a_finding() -> None:
    helpers = HELPERS.replace(b"def place(self, book)", b"def put(self, book)")
    own = b"def keep(shelf, book):\n    return shelf.place(book)\n"
    ((file, message),) = found((b"book.out = False", b"book.out = None"), helpers, {FORK: own})
    assert (file, "`place` of Shelf" in message) == (FORK, True)


def test_a_method_that_another_class_still_has_may_be_called() -> None:
    helpers = HELPERS.replace(b"def place(self, book)", b"def put(self, book)")
    own = OTHERS + b"\n\ndef keep(rack, book):\n    return rack.place(book)\n"
    assert found((b"book.out = False", b"book.out = None"), helpers, {FORK: own}) == []


STATIC = HELPERS.replace(
    b"\n\ndef stamp", b"\n    @staticmethod\n    def count(book):\n        return 1\n\n\ndef stamp"
)


@pytest.mark.parametrize(
    ("code", "is_one"),
    [
        (b"        Shelf.count(book, 1)\n", True),
        (b"        Shelf.count(book)\n", False),
        # What stands behind a star may be passed at any position.
        (b"        Shelf.count(*book, 1)\n", False),
        (b"        Shelf.count(*book, row=1)\n", True),
    ],
    ids=["by-position", "not-at-all", "behind-a-star", "by-name-behind-a-star"],
)
def test_a_parameter_of_a_static_method_is_counted_from_the_first(code: bytes, is_one: bool) -> None:
    helpers = STATIC.replace(b"def count(book):", b"def count(book, row=0):")
    uses = found((LEND, code + LEND), helpers, {SHELF: OTHERS}, base=STATIC)
    assert [(file, "`row` of count" in message) for file, message in uses] == [(DESK, True)] * is_one


@pytest.mark.parametrize(
    ("all_else", "is_one"),
    [(b"", True), (b"from sglang.srt.wax import *\n", False), (b"def __getattr__(name): ...\n", False)],
    ids=["nothing", "a-star-import", "getattr"],
)
def test_what_the_port_removes_may_still_come_from_elsewhere(all_else: bytes, is_one: bool) -> None:
    base = all_else + HELPERS
    gone = base[: base.index(b"\n\ndef stamp")]
    used = b"        return stamp(book)\n", b"        return book\n"
    uses = found(used, gone, {SHELF: base, FORK: OWN}, base=base)
    assert [file for file, _ in uses if file == FORK] == [FORK] * is_one


@pytest.mark.parametrize(
    ("kind", "is_one"),
    [
        (b"ImportError", False),
        (b"(KeyError, ImportError)", False),
        (b"KeyError", True),
        (b"(KeyError, ValueError)", True),
    ],
)
def test_an_import_whose_failure_the_code_handles_is_no_finding(kind: bytes, is_one: bool) -> None:
    lines = b"try:\n    from sglang.srt.shelf import seal\nexcept %s:\n    pass\n" % kind
    code = b"".join(b"        " + line for line in lines.splitlines(keepends=True))
    uses = found((LEND, code + LEND), WAX + SEALED, base=WAX + HELPERS)
    assert [file for file, _ in uses] == [DESK] * is_one


@pytest.mark.parametrize(
    ("receiver", "others", "is_one"),
    [(b"shelf", b"", True), (b"box", b"", False), (b"shelf", OTHERS, False)],
    ids=["named-like-it", "named-otherwise", "another-class-has-one"],
)
def test_a_call_of_a_method_that_the_port_removes_is_told_by_the_name_of_its_object(
    receiver: bytes, others: bytes, is_one: bool
) -> None:
    helpers = HELPERS.replace(b"def place(self, book)", b"def put(self, book)")
    own = b"def keep(%s, book):\n    return %s.place(book)\n" % (receiver, receiver)
    uses = found((b"book.out = False", b"book.out = None"), helpers, {FORK: others + b"\n\n" + own})
    assert [file for file, _ in uses] == [FORK] * is_one


def test_a_field_of_a_class_is_a_parameter_of_it() -> None:
    card = b"\n\n@dataclass\nclass Card:\n    name: str\n"
    base = WAX + HELPERS + card
    helpers = (
        WAX + HELPERS.replace(b"self.books = []", b"self.books = ()") + card + b"    row: int = melt()\n"
    )
    code = b"        shelf.Card('a', row=1)\n"
    ours = {SHELF: base.removeprefix(WAX).replace(b"self.books = []", b"self.books = {}")}
    uses = found((LEND, code + LEND), helpers, ours, base)
    assert any(file == DESK and "`row` of Card" in message for file, message in uses)


def test_a_definition_that_an_import_replaces_keeps_its_callers() -> None:
    index = HELPERS.index(b"def stamp")
    new = b"from sglang.srt.wax import stamp\n\n\n" + HELPERS[:index].rstrip() + b"\n"
    own = b"from sglang.srt.shelf import stamp\n\n\ndef keep(a):\n    return stamp(book=a)\n"
    assert found((b"book.out = False", b"book.out = None"), new, {FORK: own}) == []


@pytest.mark.parametrize(
    ("cls", "base", "is_one"),
    [(b"Shelf", b"", True), (b"Rack", b"", False), (b"Rack", b"    def place(self, a): ...\n", False)],
    ids=["of-its-name", "of-another-name", "with-one-of-its-own"],
)
def test_a_call_on_self_of_a_method_that_the_port_removes_is_told_by_the_class(
    cls: bytes, base: bytes, is_one: bool
) -> None:
    helpers = HELPERS.replace(b"def place(self, book)", b"def put(self, book)")
    own = b"class %s:\n%s    def keep(self, book):\n        return self.place(book)\n" % (cls, base)
    uses = found((b"book.out = False", b"book.out = None"), helpers, {FORK: own})
    assert [file for file, _ in uses] == [FORK] * is_one


@pytest.mark.parametrize(
    ("code", "is_one"),
    [
        (b"from sglang.srt import shelf\nx = shelf.stamp\n", True),
        (b"from sglang.srt import shelf as s\nx = s.stamp\n", True),
        (b"import sglang.srt.shelf as s\nx = s.stamp\n", True),
        (b"from . import shelf\nx = shelf.stamp\n", True),
        (b"from .shelf import stamp\n", True),
        (b"from .shelf import stamp as own\n", True),
        (b"from sglang.srt import desk\nx = desk.stamp\n", False),
        (b"from sglang.srt.desk import stamp\n", False),
        (b"from sglang.srt import shelf\nshelf.stamp = 1\n", False),
        (b"from sglang.srt import shelf\nshelf.stamp += 1\n", True),
        (b"from sglang.srt import shelf\nx = shelf.part.stamp\n", False),
        (b"stamp = 1\nx = stamp\n", False),
    ],
)
def test_a_use_of_a_name_that_the_port_removes_is_told_by_its_module(code: bytes, is_one: bool) -> None:
    used = b"        return stamp(book)\n", b"        return book\n"
    uses = found(used, GONE, {FORK: code})
    assert [file for file, _ in uses if file == FORK] == [FORK] * is_one


def test_an_attribute_that_another_class_of_the_file_has_is_missing_all_the_same() -> None:
    shelf = b"class Box:\n    def __init__(self):\n        self.size = 1\n\n\n"
    before, after, ours = (
        shelf + b"class Shelf:\n" + body
        for body in (
            b"    def __init__(self):\n        self.books = []\n",
            b"    def __init__(self):\n        self.books = []\n        self.size = 2\n",
            b"    pass\n",
        )
    )
    ((file, message),) = found(
        (LEND, b"        note(self.shelf.size)\n" + LEND), after, {SHELF: ours}, before
    )
    assert file == DESK
    assert "`size` of Shelf" in message


@pytest.mark.parametrize(
    ("ours", "is_found"),
    [
        (b"class Book:\n    lent_times = 0\n", True),
        (b"class Book:\n    times = 0\n", False),
        (b"def read(book):\n    return getattr(book, 'times', 0)\n", False),
    ],
    ids=["it has another name here", "it is there", "it may be there"],
)
def test_an_attribute_that_only_the_tree_of_the_change_has_is_not_read_in_silence(
    ours: bytes, is_found: bool
) -> None:
    theirs = USER.replace(LEND, LEND.replace(b"        return", b"        note(book.times)\n        return"))
    base = MemoryTree({DESK: USER, "srt/book.py": b"class Book:\n    times = 0\n"})
    tree = MemoryTree({DESK: USER, "srt/book.py": ours})
    sources = {DESK: (USER, theirs)}
    landing = land(sources, Trees(base, tree))
    findings = [finding.message for finding in dependencies_of(tree, sources, landing, base)]
    said = "`times` is nowhere in this tree; the change's tree has it in srt/book.py"
    assert findings == [said] * is_found
