"""A file's syntax tree is the same, put together of its definitions' or parsed in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.tree.pieces import parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.releases import Releases

OPENINGS = ("", '"""Shelves."""\n', "# above\n\nimport shop\n", "x = 1\n\n# between\n", "@dataclass\n")
PARTS = (
    "def lend(book):\n    return book\n",
    "def lend(book):\n    return book\n    # its end\n\n# below\n",
    "async def lend(book): pass\n",
    "@wraps(\n    lend\n)\n@other\ndef lend(book):\n    return book\n\n\n",
    "class Shelf:\n    rows = 1\n\n    def put(self):\n        pass\n\n    # up\n    @old\n    def put(self): pass\n",
    "class Shelf(Box):\n    def put(self):\n        pass\n    # its end\n\n\nshelf = Shelf()\n",
    "class Shelf(Box):\n    def put(self):\n        pass\n  # odd\n    def take(self): pass\n",
    "class Shelf:\n    class Row:\n        def put(self): pass\n\n    if x:\n        put = 1\n    else: pass\n",
    "class Shelf:\n  def put(self):\n    pass\n",
    "class Shelf: rows = 1\n",
    "if x:\n    def put(): pass\n",
    "if x:\n",
    "    def put(self): pass\n",
    "    pass\n",
    'text = """\n',
    'def x(): """\nclass Shelf:\n    def put(self):\n"""\n',
    "y = (1,\n",
    "    )\n",
    "x = \\\n",
    "else:\n    pass\n",
    "@\n",
    "\n",
    "# alone\n",
    "\tdef put(self): pass\n",
    "\f\n",
    "é = 'ü'\n",
    "pass",
)


def told(parse: Callable[[bytes], cst.Module], source: bytes) -> cst.Module | str:
    """Return the syntax tree of a source, or what is wrong with it."""
    try:
        return parse(source)
    except (cst.ParserSyntaxError, UnicodeDecodeError) as error:
        return str(error)


def nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from nodes(child)


def require_same(source: bytes) -> None:
    expected, found = told(cst.parse_module, source), told(parsed, source)
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
        return
    assert found.deep_equals(expected)
    assert found.bytes == expected.bytes
    every = list(map(id, nodes(found)))
    assert len(set(every)) == len(every), "each node stands at one place"


@given(st.sampled_from(OPENINGS), st.lists(st.sampled_from(PARTS), max_size=6))
def test_a_file_is_parsed_as_a_whole_is(opening: str, parts: list[str]) -> None:
    require_same((opening + "".join(parts)).encode())


@pytest.mark.parametrize("sign", ["# coding: latin-1\n", "\ufeff", "# é\r\n"])
def test_a_file_that_is_read_otherwise_is_parsed_in_one(sign: str) -> None:
    require_same(f"{sign}def lend():\n    pass\n\n\ndef put():\n    pass\n".encode())


def test_a_definition_that_two_versions_of_a_file_have_is_parsed_once() -> None:
    same = (
        "class Shelf:\n    def put(self):\n        return 'both'\n\n    def take(self):\n        return {}\n"
    )
    one, other = (parsed(f"import shop\n\n\n{same.format(n)}".encode()).body[1] for n in (1, 2))
    assert isinstance(one, cst.ClassDef)
    assert isinstance(other, cst.ClassDef)
    assert one.body.body[0] is other.body.body[0]
    assert one.body.body[1] is not other.body.body[1]


@pytest.mark.parametrize("folder", ["srt/speculative", "srt/layers/attention", "srt/managers"])
def test_files_of_a_release_are_parsed_as_a_whole_is(releases: Releases, folder: str) -> None:
    tree = releases.tree("0.5.12.post1")
    for file in tree.files(folder)[::7]:
        source = tree.read(file) or b""
        assert parsed(source).deep_equals(cst.parse_module(source))
