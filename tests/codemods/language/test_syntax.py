from __future__ import annotations

import libcst as cst
import pytest

from patchkit.codemods.language import syntax

PROGRAM = """
def lend(book, reader):
    if reader.owes:
        refuse(reader)
    else:
        reader.books.append(book)
"""


def same(left: str, right: str) -> bool:
    return syntax.same(cst.parse_module(left + "\n").body, cst.parse_module(right + "\n").body)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("price(book)", "price( book )"),
        ("price(book)", "(price(book))"),
        ("price(book, 2)", "price(\n    book,  # which\n    2,\n)"),
        ("title = 'Emma'", 'title = "Emma"'),
        ("title = r'Emma'", 'title = """Emma"""'),
        ("shelf = (1, 2)", "shelf = 1, 2"),
        ("from shop import (book,)", "from shop import book"),
        ("def f(*, a): pass", "def f( * , a ): pass"),
        ("if a and b: pass", "if (a\n    and b): pass"),
        ("if a: f(b)", "if a:\n    f(b)"),
        ("while a: f(b); g(b)", "while a:\n    f(b)\n    g(b)"),
    ],
)
def test_layout_has_no_meaning(left: str, right: str) -> None:
    assert same(left, right)
    assert same(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("price(book)", "price(books)"),
        ("price(book)", "price(book, 2)"),
        ("price(book)", "price(*book)"),
        ("title = 'Emma'", "title = b'Emma'"),
        ("title = 'Emma'", "title = f'Emma'"),
        ("(a + b) * c", "a + b * c"),
        ("not a == b", "a != b"),
        ("def f(a): pass", "def f(a, *rest): pass"),
        ("def f(a): pass", "def f(*, a): pass"),
        ("def f(a): pass", "def f(a, /): pass"),
        ("def f(*a): pass", "def f(**a): pass"),
        ("shelf[1:]", "shelf[1]"),
        ("shelf[1:]", "shelf[:1]"),
        ("if a: pass", "if a: pass\nelse: pass"),
        ("if a: f(b)", "if a:\n    f(c)"),
        ("if a: f(b)", "if a:\n    f(b)\n    f(b)"),
        ("import shop", "import shop as s"),
    ],
)
def test_different_programs_differ(left: str, right: str) -> None:
    assert not same(left, right)
    assert not same(right, left)


def test_every_node_is_found_at_its_path() -> None:
    module = cst.parse_module(PROGRAM)
    for path, node in syntax.descend(module):
        assert syntax.node_at(module, path) is node


def test_replacing_leaves_everything_else_as_it_was() -> None:
    module = cst.parse_module(PROGRAM)
    (path,) = [
        path for path, node in syntax.descend(module) if isinstance(node, cst.Name) and node.value == "refuse"
    ]
    changed = syntax.replace_at(module, path, cst.Name("remind"))
    assert isinstance(changed, cst.Module)
    assert changed.code == PROGRAM.replace("refuse", "remind")
    assert module.code == PROGRAM


def test_replacing_the_root() -> None:
    module = cst.parse_module(PROGRAM)
    assert syntax.replace_at(cst.parse_module("pass"), (), module) is module


def test_blocks_of_every_compound_statement_are_found() -> None:
    source = """
match order:
    case Loan():
        a = 1
    case _:
        try:
            b = 1
        except KeyError:
            c = 1
        else:
            d = 1
        finally:
            e = 1
while open:
    f = 1
else:
    for day in week:
        with key:
            g = 1
"""
    blocks = [block for _, block in syntax.blocks_in(cst.parse_module(source))]
    first_lines = [syntax.code_of(block.body[0]).strip() for block in blocks]
    for name in "abcdefg":
        assert f"{name} = 1" in first_lines


def test_body_on_the_line_of_its_header_is_a_block() -> None:
    module = cst.parse_module("if late: remind(reader)\n")
    outer, (path, inner) = syntax.blocks_in(module)
    assert outer == ((), module)
    assert syntax.node_at(module, path) is inner
    assert [syntax.code_of(one) for one in syntax.statements_of(inner) or ()] == ["remind(reader)\n"]


def test_statements_of_an_expression_are_none() -> None:
    assert syntax.statements_of(cst.parse_expression("a + b")) is None


@pytest.mark.parametrize(
    "source",
    [
        "class Shelf:\n  books = 2\n  def add(self):\n    # which\n    pass\n    # none\n  # last\n"
        "\n\nclass Reader: pass\n# end\n",
        "class Shelf:\r\n\tif 1:\r\n\t\tpass\r\n\tbooks = 1\r\n",
        "class Shelf:\n  class Row:\n      class Book:\n        price = 1\n      # below\n  rows = 1\n",
        "@kept\nclass Shelf(\n  Furniture\n):  # wooden\n\n    '''Holds\nbooks'''\n"
        "    title = '''\nEmma\n'''\nif 1:\n\tclass Row:\n\t\tx=1\n",
        "class Shelf:\n    books = 1; rows = 2",
        "# nothing\n",
        "books = 1",
        "\n",
        "",
    ],
)
def test_a_module_is_written_to_the_byte_also_after_another_with_the_same_statements(source: str) -> None:
    module = cst.parse_module(source)
    assert syntax.source_of(module) == source.encode()
    wider = module.with_changes(body=[*module.body, *cst.parse_module("late = 1\n").body])
    assert syntax.source_of(wider) == wider.bytes
    other = module.with_changes(default_indent="   ", default_newline="\r\n")
    assert syntax.source_of(other) == other.bytes


def test_a_statement_is_written_as_deep_as_it_is_where_another_module_has_it_at_another_depth() -> None:
    shelf = cst.parse_module("class Shelf:\n    if 1:\n        books = 2\n    row = 1\n")
    assert syntax.source_of(shelf) == shelf.bytes
    (cls,) = shelf.body
    moved = shelf.with_changes(body=syntax.statements_of(syntax.node_at(cls, (("body", None),))))
    assert syntax.source_of(moved) == moved.bytes == b"if 1:\n    books = 2\nrow = 1\n"
    assert syntax.source_of(shelf) == shelf.bytes
    whole = cst.parse_module("if 1:\n    books = 3\n")
    block = cst.ensure_type(cls, cst.ClassDef).body.with_changes(body=whole.body)
    assert syntax.source_of(whole) == whole.bytes
    held = shelf.with_changes(body=[cls.with_changes(body=block)])
    assert syntax.source_of(held) == held.bytes == b"class Shelf:\n    if 1:\n        books = 3\n"


def test_a_name_is_the_one_name_in_it() -> None:
    assert syntax.names_in(cst.Name("book")) == {"book"}
    assert syntax.names_in(cst.parse_expression("book.days + f(reader)")) == {"book", "days", "f", "reader"}
