"""After a port only what is new is a finding: what was wrong with the tree before is not the port's."""

from __future__ import annotations

import pytest

from patchkit.porting.findings import findings_of
from patchkit.tree.tree import MemoryTree

DESK, SHELF = "srt/desk.py", "srt/shelf.py"
HELPERS = b"def put(book):\n    return book\n"
WRONG = b"""\
from sglang.srt.shelf import put, gone


def lend(book):
    put(book, 1)
    return nobody(book)
"""
MORE = b"""\


def take(book):
    put(book, 2)
    return nowhere(book)
"""


def found(before: bytes, after: bytes) -> list[tuple[str, str]]:
    tree = MemoryTree({DESK: before, SHELF: HELPERS})
    return [(finding.function, finding.message) for finding in findings_of(tree, {DESK: after}, ())]


def test_what_was_wrong_before_is_no_finding() -> None:
    assert found(WRONG, WRONG + b"\n\ndef take(book):\n    return put(book)\n") == []


def test_what_is_wrong_once_more_is_one_finding_each() -> None:
    findings = found(WRONG, WRONG + MORE)
    assert len(findings) == 2
    assert all(any(word in message for _, message in findings) for word in ("`nowhere`", "put ("))


def test_what_is_wrong_in_place_of_something_else_is_a_finding() -> None:
    ((_, message),) = found(WRONG, WRONG.replace(b"put(book, 1)", b"put()"))
    assert "put (" in message
    ((_, message),) = found(WRONG, WRONG.replace(b"nobody", b"nowhere"))
    assert "`nowhere`" in message


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (b"x = nobody\n", ["nobody"]),
        (b"class Desk:\n    days = nobody\n", ["nobody"]),
        (b"@nobody\ndef lend(): ...\n", ["nobody"]),
        (b"def lend(book=nobody): ...\n", ["nobody"]),
        (b"def lend(book: nobody): ...\n", ["nobody"]),
        (b"def lend():\n    nobody()\n    return nowhere\n", ["nobody", "nowhere"]),
        (b"def lend():\n    return lambda: nobody\n", ["nobody"]),
        (b"if TYPE_CHECKING:\n    from a import Book\nx = Book()\n", ["Book"]),
        (b"if TYPE_CHECKING:\n    from a import Book\ndef lend(book: 'Book'): ...\n", []),
        (b"def lend():\n    return __file__, print, own\nown = 1\n", []),
    ],
)
def test_a_name_that_nothing_defines_is_a_finding_wherever_it_is_read(code: bytes, names: list[str]) -> None:
    head = b"from typing import TYPE_CHECKING\n"
    findings = findings_of(MemoryTree({DESK: head}), {DESK: head + code}, ())
    assert sorted(each.message.split("`")[1] for each in findings) == names
    lines = (head + code).decode().split("\n")
    assert all(each.message.split("`")[1] in lines[each.line - 1] for each in findings)
    # So it is in a new file, and not where the change's own file has it too.
    assert len(findings_of(MemoryTree({}), {DESK: head + code}, ())) == len(names)
    base = MemoryTree({DESK: head})
    assert findings_of(base, {DESK: head + code}, (), base, {DESK: (head, head + code)}) == ()


def test_a_removed_file_and_one_that_is_no_python_have_no_findings() -> None:
    tree = MemoryTree({DESK: WRONG, SHELF: HELPERS, "srt/a.cuh": b"int x;\n"})
    assert findings_of(tree, {DESK: None}, ()) == ()
    assert findings_of(tree, {"srt/a.cuh": b"int nobody = nowhere;\n"}, ()) == ()


def test_all_that_is_wrong_in_a_new_file_is_a_finding() -> None:
    tree = MemoryTree({SHELF: HELPERS})
    messages = [finding.message for finding in findings_of(tree, {DESK: WRONG}, ())]
    assert len(messages) == 3


SHELVED = {DESK: b"x = 1\n", SHELF: HELPERS, "kernels/ops/wax.py": b"def melt(): ...\n"}
LACKING = "the tree has no module sglang.srt.gone"


@pytest.mark.parametrize(
    ("code", "messages"),
    [
        (b"if x:\n    from sglang.srt.gone import melt\n", [LACKING]),
        (b"def f():\n    if x:\n        from sglang.srt.gone import melt\n", [LACKING]),
        (b"import sglang.srt.gone as wax\n", [LACKING]),
        (b"from sglang.srt import gone\n", [LACKING]),
        (b"with x:\n    import sglang.srt.gone\n", [LACKING]),
        (b"try:\n    import sglang.srt.gone\nexcept KeyError:\n    pass\n", [LACKING]),
        (b"try:\n    pass\nexcept ImportError:\n    import sglang.srt.gone\n", [LACKING]),
        (
            b"try:\n    def f():\n        import sglang.srt.gone\nexcept ImportError:\n    pass\n",
            [LACKING],
        ),
        (b"match x:\n    case 1:\n        import sglang.srt.gone\n", [LACKING]),
        (b"try:\n    import sglang.srt.gone\nexcept (KeyError, ImportError):\n    pass\n", []),
        (b"try:\n    if x:\n        import sglang.srt.gone\nexcept Exception:\n    pass\n", []),
        (b"with contextlib.suppress(ImportError):\n    import sglang.srt.gone\n", []),
        (b"if TYPE_CHECKING:\n    from sglang.srt.gone import melt\n", []),
        (b"if x:\n    from sglang.srt.shelf import put\n", []),
        (b"from sglang.kernels.ops.wax import melt\n", []),
        (b"from sglang.kernels.ops import wax\n", []),
        (b"from sglang.kernels import ops\n", []),
        (b"import torch.gone as gone\n", []),
    ],
)
def test_an_import_of_what_the_tree_lacks_is_a_finding_wherever_it_runs(
    code: bytes, messages: list[str]
) -> None:
    head = b"import contextlib\nfrom typing import TYPE_CHECKING\n\n"
    findings = findings_of(MemoryTree(SHELVED), {DESK: head + b"x = 1\n" + code}, ())
    assert [finding.message for finding in findings if finding.rule == "PV301"] == messages


READER = b"""\
class Desk(Counter):
    def lend(self, book):
        return self.book_log
"""
SETTERS = {
    "nothing": (b"pass", True),
    "another name": (b"setattr(desk, f'{kind}_list', [])", True),
    "a computed name": (b"setattr(desk, f'{kind}_log', [])", False),
    "a name from a list": (b"for name in ('book_log', 'seat'): setattr(desk, name, [])", False),
    "a tuple": (b"desk.book_log, desk.seat = [], 1", False),
    "a context": (b"with desk as desk.book_log: pass", False),
    "only a formatted value": (b"setattr(desk, f'{kind}', [])", True),
}


@pytest.mark.parametrize(("setter", "is_one"), SETTERS.values(), ids=SETTERS)
def test_an_attribute_that_the_tree_sets_under_a_name_that_it_computes_is_no_finding(
    setter: bytes, is_one: bool
) -> None:
    counter = b"class Counter:\n    def lend(self, book):\n        return book\n"
    shelf = b"def fill(desk, kind):\n    %s\n" % setter
    tree = MemoryTree({DESK: counter, SHELF: shelf})
    findings = findings_of(tree, {DESK: counter + READER}, ())
    assert [finding.rule for finding in findings] == ["PV406"] * is_one


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize(
    "code",
    [
        b"def f():\n    return os.name\n",
        b"from sglang.srt.gone import melt\n",
        b"class Desk:\n    def f(self):\n        return self.nothing\n",
        b"def f(book):\n    return put(book, 1)\n",
    ],
    ids=["a name", "an import", "an attribute", "a call"],
)
def test_what_is_equally_wrong_in_the_tree_of_the_change_is_no_finding(code: bytes, is_whole: bool) -> None:
    root = {"__init__.py": b""} if is_whole else {}
    line = b"from sglang.srt.shelf import put\n"
    base = MemoryTree({DESK: line, SHELF: HELPERS, **root})
    tree = MemoryTree({DESK: line + b"x = 1\n", SHELF: HELPERS, **root})
    made = {DESK: line + b"x = 1\n" + code}
    sources = {DESK: (line, line + code)}
    # Of a part of a tree only its own names are known.
    is_one = not is_whole and b"os.name" not in code
    assert len(findings_of(tree, made, ())) == 1
    assert len(findings_of(tree, made, (), base, sources)) == is_one


FALLBACK = b"""\
try:
    from sglang.srt.shelf import put
except ImportError:

    def put(book, place):
        return book


def lend(book):
    return put(book)
"""


@pytest.mark.parametrize(
    "text",
    [
        FALLBACK,
        FALLBACK.replace(b"sglang.srt.shelf", b"shelf"),
        b"def put(book, place):\n    return book\n\n\nput = cached(put)\nput(1)\n",
        b"class put:\n    def __init__(self, book, place):\n        pass\n\n\nif x:\n    put = None\nput(1)\n",
    ],
)
def test_which_of_several_definitions_is_called_is_not_known(text: bytes) -> None:
    assert (
        found(b"x = 1\n" + text.replace(b"put(book)", b"1").replace(b"put(1)", b"1"), b"x = 1\n" + text) == []
    )


def test_the_only_definition_is_what_is_called() -> None:
    text = FALLBACK.replace(b"    from sglang.srt.shelf import put\n", b"    import shelf\n")
    assert len(found(text.replace(b"return put(book)", b"return 1"), text)) == 1
