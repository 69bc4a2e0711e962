"""A module that is parsed definition by definition is the one that libcst parses from the whole source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.codemods.language.syntax import source_of
from patchkit.tree.piecewise import parse
from patchkit.tree.sglang import SERVING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.releases import Releases

HEAD = "# A library.\n\nimport shop\n\n"
TAKE = "def take(book):\n    return book\n"
PUT = "\n\ndef put(book):\n    # on a shelf\n    book.shelf = 1\n    return book\n"
DESK = """

@shop.register
class Desk(shop.Desk):
    \"\"\"A desk.\"\"\"

    rows = 5

    def lend(self, book):
        return book  # for a week
        # then it is back

    # A comment of the next one.
    @property
    @shop.cached
    def books(self):
        return []

    size = 3

# A comment that is not indented.
    async def open(self): ...
    # The last comment of the desk.
# A comment below it.
"""

SOURCES = (
    "",
    "\n",
    "# only a comment",
    "import shop\n",
    TAKE,
    HEAD + TAKE,
    HEAD + TAKE + PUT,
    HEAD + TAKE + DESK,
    HEAD + DESK + PUT,
    (HEAD + DESK + PUT).removesuffix("\n"),
    (HEAD + PUT + DESK).removesuffix("\n"),
    HEAD + PUT + DESK + "\n\n    # indented, and at the end\n\n# not indented\n",
    HEAD + DESK + "rate = 1\nif rate:\n    def lower(): ...\nelse:\n    def higher(): ...\n" + PUT,
    HEAD + "if shop:\n    class Desk:\n        def lend(self): ...\n        def take(self): ...\n" + PUT,
    # Lines that begin no definition.
    HEAD + 'text = """\n' + TAKE + '"""\n' + PUT,
    HEAD + "class Desk:\n    text = '''\n    def lend(self): ...\n    '''\n    def take(self): ...\n" + PUT,
    HEAD + "x = shop \\\n@ shop\n" + PUT,
    HEAD + "x = (shop\n@ shop)\n" + PUT,
    HEAD + "x = 1; \\\n\n" + PUT,
    HEAD + "\\\n\n" + PUT,
    HEAD + "    \\\n\n" + PUT + DESK,
    HEAD + "class Desk:\n  if shop:\n    def lend(self): ...\n    def take(self): ...\n" + PUT,
    HEAD + "class Desk:\n  rows = 1\n  def lend(self): ...\n" + PUT,
    HEAD + "class Desk: rows = 1\n" + PUT,
    HEAD + "class Desk:\n    def lend(self): ...\n    def take(self): pass; pass\n    pass\n" + PUT,
    # What counts for a whole file.
    HEAD + PUT.replace("    ", "  ") + DESK,
    HEAD + PUT.replace("    ", "\t") + DESK,
    HEAD + DESK + PUT.replace("    ", "\t"),
    (HEAD + PUT + DESK).replace("\n", "\r\n"),
    HEAD + PUT + DESK.replace("\n", "\r\n"),
    HEAD + PUT + "\f" + DESK,
    f"\ufeff{HEAD}{PUT}{DESK}",
    f"# coding: utf-8\n{HEAD}{PUT}{DESK}",
    f"#!/usr/bin/python\n# -*- coding: utf-8 -*-\n{HEAD}{PUT}{DESK}",
    # One name and one text twice.
    HEAD + PUT + PUT + DESK + DESK,
)
INVALID = (
    "def take(book:\n    pass\n",
    HEAD + "@shop\n" + "x = 1\n" + PUT,
    HEAD + "@shop\n",
    HEAD + PUT + "else:\n    pass\n" + DESK,
    HEAD + PUT + "  x = 1\n" + DESK,
    HEAD + "x = 1; \\\n" + PUT.lstrip(),
    HEAD + "x = 1 + \\\n" + DESK.lstrip(),
    HEAD + DESK + "    def lend(self): (\n" + PUT,
    HEAD + 'text = """\n' + TAKE + PUT,
)


def parsed_or_line(parse: object, source: bytes) -> cst.Module | tuple[int, int]:
    """Return a module, or the line and column of a syntax error."""
    assert callable(parse)
    try:
        module = parse(source)
    except cst.ParserSyntaxError as error:
        return error.raw_line, error.raw_column
    assert isinstance(module, cst.Module)
    return module


def assert_parsed_as_a_whole(source: bytes) -> None:
    whole, found = parsed_or_line(cst.parse_module, source), parsed_or_line(parse, source)
    if isinstance(whole, cst.Module) and isinstance(found, cst.Module):
        assert found.deep_equals(whole)
        assert found.bytes == whole.bytes == source_of(found)
    else:
        assert found == whole


def nodes(module: cst.Module) -> Iterator[cst.CSTNode]:
    ahead: list[cst.CSTNode] = [module]
    while ahead:
        node = ahead.pop()
        yield node
        ahead += node.children


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_is_parsed_as_a_whole(source: str) -> None:
    module = cst.parse_module(source.encode())
    assert isinstance(module, cst.Module)
    assert_parsed_as_a_whole(source.encode())


@pytest.mark.parametrize("source", INVALID)
def test_an_error_is_that_of_the_whole_source(source: str) -> None:
    with pytest.raises(cst.ParserSyntaxError):
        cst.parse_module(source.encode())
    assert_parsed_as_a_whole(source.encode())


def test_a_source_in_another_encoding_is_parsed_as_a_whole() -> None:
    source = f"# coding: latin-1\n{HEAD}{PUT}name = 'é'\n{TAKE}".encode("latin-1")
    assert parse(source).deep_equals(cst.parse_module(source))
    with pytest.raises(UnicodeDecodeError):
        parse(f"{HEAD}{PUT}name = 'é'\n{TAKE}".encode("latin-1"))


LINES = [
    *sorted({line for source in (HEAD, TAKE, PUT, DESK) for line in source.splitlines()}),
    *(
        "else:",
        "    else:",
        "if shop:",
        "    if shop:",
        '"""',
        "    pass",
        "pass",
        "x = (",
        ")",
        "\\",
        "  # two",
    ),
    *(
        "class Shelf:",
        "    def take(self): ...",
        "    class Row:",
        "        def fill(self): ...",
        "x = 1; \\",
    ),
]


@given(st.lists(st.sampled_from(LINES), max_size=12), st.booleans())
def test_any_lines_are_parsed_as_a_whole(lines: list[str], ends: bool) -> None:
    assert_parsed_as_a_whole(("\n".join(lines) + "\n" * ends).encode())


@given(st.lists(st.sampled_from([HEAD, TAKE, PUT, DESK, *INVALID, *SOURCES]), max_size=5))
def test_any_definitions_are_parsed_as_a_whole(sources: list[str]) -> None:
    assert_parsed_as_a_whole("".join(sources).encode())


def test_files_of_a_release_are_parsed_as_a_whole(releases: Releases) -> None:
    tree = releases.tree("0.5.14")
    for file in tree.files(SERVING)[::50]:
        source = tree.read(file)
        assert source is not None
        assert_parsed_as_a_whole(source)


def member(module: cst.Module, name: str, of: str) -> cst.CSTNode:
    (found,) = (
        each
        for statement in module.body
        if isinstance(statement, cst.ClassDef) and statement.name.value == of
        for each in statement.body.body
        if isinstance(each, cst.FunctionDef) and each.name.value == name
    )
    return found


def test_modules_share_the_functions_and_methods_that_both_have() -> None:
    first = parse((HEAD + TAKE + DESK + PUT).encode())
    second = parse((HEAD + TAKE + DESK.replace("for a week", "for a day") + PUT).encode())
    of_first, of_second = (
        {node for node in module.body if isinstance(node, cst.FunctionDef)} for module in (first, second)
    )
    assert len(of_first) == 2
    assert of_first == of_second
    assert member(first, "books", "Desk") is member(second, "books", "Desk")
    assert member(first, "lend", "Desk") is not member(second, "lend", "Desk")


def test_a_module_has_each_node_once() -> None:
    twice = parse((HEAD + PUT + DESK + DESK.replace("class Desk", "class Table") + PUT).encode())
    ids = [id(node) for node in nodes(twice)]
    assert len(ids) == len(set(ids))


def test_a_method_that_becomes_a_function_is_written_as_one() -> None:
    module = parse((HEAD + TAKE + DESK + PUT).encode())
    books = cst.ensure_type(member(module, "books", "Desk"), cst.FunctionDef)
    moved = module.with_changes(body=(*module.body, books, *module.body[:1]))
    assert source_of(moved) == moved.bytes
    assert moved.code.endswith(
        "\n\n# A comment of the next one.\n@property\n@shop.cached\ndef books(self):\n    return []\nimport shop\n"
    )
