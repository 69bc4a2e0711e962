"""Two sides of a file are merged where that is sure, and each other place stays a conflict of git's."""

from __future__ import annotations

import pytest

from patchkit.change.sides import Sides, by_lines, marked, merged, sides_of

BASE = """\
import os
from shelf import Book, find


def lend(book, reader):
    due = today()
    note(book, due=due)
    return due


def take(book):
    book.out = False
    return book


KINDS = {"atlas": 1}
"""


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def conflicts(sides: Sides) -> int:
    return sum(isinstance(part, Sides) for part in by_lines(sides))


def both(ours: str, theirs: str, base: str = BASE) -> str | None:
    """Return the merge in either direction; None if it is a conflict. Git alone has one."""
    results = []
    for one, other in ((ours, theirs), (theirs, ours)):
        sides = Sides(base, one, other)
        assert conflicts(sides)
        found = merged(sides)
        results.append(found.sides.ours if found.is_whole else None)
    assert (results[0] is None) is (results[1] is None)
    return results[0]


def test_each_side_adds_a_function_at_the_same_place() -> None:
    one, other = "def burn(book):\n    return None\n\n\n", "def bind(book):\n    return book\n\n\n"
    result = both(*(changed(BASE, ("def take", f"{added}def take")) for added in (one, other)))
    assert result is not None
    assert one in result
    assert other in result


def test_each_side_adds_an_import() -> None:
    sides = (changed(BASE, ("import os\n", f"import os\nimport {name}\n")) for name in ("re", "ast"))
    result = both(*sides)
    assert result is not None
    assert "import re\n" in result
    assert "import ast\n" in result


def test_one_side_adds_a_name_to_an_import_that_the_other_splits() -> None:
    split = changed(BASE, ("import Book, find", "import Book\nfrom shelf import find"))
    assert both(changed(BASE, ("Book, find", "Book, find, sort")), split) == changed(
        split, ("import find", "import find, sort")
    )


@pytest.mark.parametrize("blank", ["", "\n"])
def test_each_side_adds_a_name_to_an_import_in_a_function(blank: str) -> None:
    base, ours, theirs, made = (
        f"def lend():\n    import os\n{blank}    from shelf import Book{names}\n    return os, Book\n"
        for names in ("", ", find", ", sort", ", find, sort")
    )
    assert both(ours, theirs, base) == made


def test_an_import_that_one_side_removes_does_not_come_back_from_a_module_that_the_other_renames() -> None:
    gone = changed(BASE, ("from shelf import Book, find\n", "from shelf import Book\n"))
    assert both(gone, changed(BASE, ("from shelf import", "from library.shelf import"))) is None


def test_an_added_import_names_a_package_that_the_other_side_renames() -> None:
    base = "from shelf import a\nfrom shelf.old import b\n"
    renamed = "from library.shelf import a\nfrom library.shelf.old import b\n"
    assert both(f"{base}from shelf.old.sub import c\n", renamed, base) is None


def test_an_added_import_is_from_a_package_whose_modules_the_other_side_moves() -> None:
    base = "from shelf.books import a\nfrom shelf.maps import b\n"
    moved = "from shelf.inner.books import a\nfrom shelf.inner.maps import b\n"
    assert both(f"{base}from shelf.score import c\n", moved, base) is None
    assert both(f"{base}from desk.score import c\n", moved, base) is not None


def test_an_added_import_is_from_a_module_from_which_the_other_side_imports_no_more() -> None:
    base = "import os\nfrom shelf.old import a\nfrom maps import Map\n"
    added = changed(base, ("import a", "import a, b"))
    assert both(added, changed(base, ("from shelf.old import a\n", "")), base) is None


def test_one_side_uses_the_import_that_the_other_removes() -> None:
    ours = changed(BASE, ("import os\n", ""), ("def take(book):", "def take(map):"))
    theirs = changed(BASE, ("def take", "def burn(book):\n    os.remove(book)\n\n\ndef take"))
    assert both(ours, theirs) is None


def test_each_side_adds_a_keyword_to_one_call() -> None:
    sides = (changed(BASE, ("due=due", f"due=due, {word}")) for word in ("reader=reader", "loud=True"))
    result = both(*sides)
    assert result is not None
    assert "loud=True" in result
    assert "reader=reader" in result


def test_both_sides_change_what_a_call_is_made_of() -> None:
    sides = (changed(BASE, ("due = today()", f"due = {text}")) for text in ("now.today()", "today().next()"))
    assert both(*sides) is None


def test_one_side_removes_the_element_that_the_other_replaces() -> None:
    base = 'NEEDS = [\n    "atlas<2",\n    "map<3",\n    "score",\n]\n'
    assert both(changed(base, ('    "map<3",\n', "")), changed(base, ("map<3", "map<4")), base) is None


def test_one_side_removes_an_import_that_the_other_uses_elsewhere() -> None:
    base = (
        "import os\nimport mixer\n\n\ndef start(desk):\n    desk.open(mixer)\n    desk.look()\n    desk.wait()\n"
        "    desk.set(days=1)\n    desk.look()\n    desk.wait()\n    return desk\n"
    )
    opened = changed(base, ("open(mixer)", "open()"))
    ours = changed(opened, ("days=1", "days=1, loud=2"))
    theirs = changed(
        opened, ("days=1", "days=1, soft=3"), ("    return", "    mixer.start(desk)\n    return")
    )
    assert both(ours, theirs, base) is not None
    assert both(changed(ours, ("import mixer\n", "")), theirs, base) is None


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        ("f(a, b)", "h(a)", "f(a, c)"),
        ("f(a, b)", "a", "f(a, c)"),
        ("f(a, b)", "g(f(a), 1)", "f(a, c)"),
        ("f(a, [b, d])", "f(a)", "f(a, [b, e])"),
        ("f(a, [b, d])", "f(a, [])", "f(a, [b, e])"),
        ("f(a, k=b)", "f(a)", "f(a, k=c)"),
        ("f(a, k=b)", "g(k=d, a=a)", "f(a, k=c)"),
        ("f(a, b, b)", "f(a, b)", "f(a, c, b)"),
        ("f(a) + g(b)", "g(b)", "f(a) + g(c) + f(d)"),
        ("f(a).g(b)", "f(a)", "f(a).g(c)"),
        ("f(a)[b]", "f(a)", "f(a)[c]"),
        ("f(a if b else c)", "f(a)", "f(a if d else c)"),
        ("{a: b, c: d}", "{a: b}", "{a: b, c: e}"),
        ("not f(a, b)", "f(a)", "not f(a, c)"),
    ],
)
def test_one_side_removes_what_the_other_replaces(base: str, ours: str, theirs: str) -> None:
    for one, other in ((ours, theirs), (theirs, ours)):
        assert both(f"x = {one}\n", f"x = {other}\n", f"x = {base}\n") is None


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        ("x = f(a)", "x = g(a)", "x = f(a, k=1)"),
        ("raise E(a)", "raise F(a)", "raise E(a, k=1)"),
        ("f(a)", "f(a, k=1)", "f(a, 1)"),
        ("def f():\n    return (a, b)", "def f():\n    return (a, b, c)", "def f():\n    return (d, a, b)"),
        ("assert f(1) == [1, 2]", "assert f(1) == [1, 2, 3]", "assert f(1, k=2) == [1, 2]"),
    ],
    ids=["another function", "another class", "a position and a name", "a returned tuple", "an assertion"],
)
def test_both_sides_change_parts_of_a_statement_that_belong_together(
    base: str, ours: str, theirs: str
) -> None:
    assert both(f"{ours}\n", f"{theirs}\n", f"{base}\n") is None


def test_one_side_calls_a_function_on_another_object_and_the_other_adds_an_argument() -> None:
    assert both("x = m.f(a)\n", "x = f(a, k=1)\n", "x = f(a)\n") == "x = m.f(a, k=1)\n"


def test_one_side_removes_an_element_where_the_other_rewrites_all() -> None:
    base = 'shelf = [["x", b],\n         ["y", c],\n         ["z", d]]\n'
    rewritten = 'shelf = [[1, "x", b],\n         [1, "y", c],\n         [1, "z", d]]\n'
    assert both('shelf = [["x", b],\n         ["y", c]] + d\n', rewritten, base) is None


def test_one_side_removes_a_condition_of_those_that_the_other_encloses() -> None:
    base = "if not odd and (\n    (book and reader is None)\n    or reader.late and not out(book)\n):\n    lend()\n"
    enclosed = (
        "if (\n    not odd\n    and (\n        (\n            book and reader is None\n        )\n"
        "        or reader.late\n    )\n    and not out(book)\n):\n    lend()\n"
    )
    assert both(changed(base, ("not odd and (", "(")), enclosed, base) is None


def test_each_side_rewrites_the_docstring_of_an_attribute() -> None:
    base = (
        'class Shelf:\n    kind = sort(1, 2)\n    """\n    Old\n    a:\n        the first\n    b:\n'
        '        the second\n    """\n\n    size = 2\n'
    )
    longer = changed(base, ("Old", "It is old."), ("the first", "The first."), ("the second", "The second."))
    shorter = changed(base, ("(1, 2)", "(1)"), ("    b:\n        the second\n", ""))
    assert both(longer, shorter, base) is None


def test_one_side_renames_the_module_of_an_import_that_the_other_moves() -> None:
    base = "from shelf.books import Book\nfrom maps import Map\nfrom shelf.base import Base\n"
    renamed = base.replace("from shelf", "from library")
    moved = "from desk import Desk\nfrom maps import Map\nfrom shelf.books import Book\nfrom shelf.base import Base\n"
    assert both(renamed, moved, base) is None


def test_one_side_adds_an_import_from_another_module_of_a_package_that_the_other_no_longer_uses() -> None:
    base = changed(
        BASE, ("from shelf import Book, find", "from desk.lists import find\nfrom shelf import Book")
    )
    ours = changed(
        base, ("desk.lists import find", "shelf.old import find"), ("due = today()", "due = now()")
    )
    line = "    from desk.rows import sort\n\n    due = today()\n    sort(book)\n"
    assert both(ours, changed(base, ("    due = today()\n", line)), base) is None


def test_git_puts_a_method_into_the_class_that_the_other_side_adds() -> None:
    end = "\n\ndef last():\n    pass\n"
    base = f"import os\n\n\nclass A:\n    def stop(self):\n        wait(1)\n{end}"
    ours = changed(
        base,
        ("wait(1)", "self.wait(1)"),
        (end, f"\n\nclass B(A):\n    wait = 2\n{end}"),
        ("os\n", "os\nimport re\n"),
    )
    method = "\n    def end(self):\n        wait(2)\n"
    theirs = changed(base, ("wait(1)\n", f"wait(1)\n{method}"), ("os\n", "os\nimport ast\n"))
    assert both(ours, theirs, base) is None


def test_each_side_assigns_one_name_at_another_place() -> None:
    one = changed(BASE, ("    due = today()\n", "    due = today()\n    book.by = reader\n"))
    other = changed(
        BASE,
        ("    due = today()\n", "    due = now()\n"),
        ("    return due", "    book.by = None\n    return due"),
    )
    assert both(one, other) is None


def test_one_side_tells_about_a_line_that_the_other_replaces() -> None:
    told = changed(BASE, ("    due = today()\n", "    # It is Monday.\n    due = today()\n"))
    assert (
        both(told, changed(BASE, ("    due = today()\n    note", "    due = clock.now()\n    note"))) is None
    )


def test_each_side_adds_a_positional_parameter() -> None:
    sides = (changed(BASE, ("book, reader", f"book, reader, {name}")) for name in ("days", "hall"))
    assert both(*sides) is None


def test_each_side_adds_an_entry_with_another_key() -> None:
    sides = (changed(BASE, ('"atlas": 1', f'"atlas": 1, {entry}')) for entry in ('"map": 2', '"score": 3'))
    result = both(*sides)
    assert result is not None
    assert '"map": 2' in result
    assert '"score": 3' in result


def test_one_side_decorates_a_function_whose_annotations_the_other_changes() -> None:
    decorated, typed = "@logged\ndef take(book):", "def take(book: Book):"
    sides = (changed(BASE, ("def take(book):", text)) for text in (decorated, typed))
    assert both(*sides) == changed(BASE, ("def take(book):", "@logged\ndef take(book: Book):"))


def test_both_sides_set_another_value() -> None:
    assert both(*(changed(BASE, ('"atlas": 1', f'"atlas": {n}')) for n in (2, 3))) is None


def test_each_side_adds_a_call_at_the_same_place() -> None:
    sides = (
        changed(BASE, ("    return due", f"    {call}\n    return due")) for call in ("ring()", "stamp()")
    )
    assert both(*sides) is None


def test_each_side_sets_another_attribute_at_the_same_place() -> None:
    sides = (
        changed(BASE, ("    return book", f"    book.{name} = None\n    return book"))
        for name in ("by", "till")
    )
    result = both(*sides)
    assert result is not None
    assert "book.by = None\n" in result
    assert "book.till = None\n" in result


def test_one_side_renames_what_a_line_that_the_other_adds_uses() -> None:
    renamed = changed(
        BASE,
        ("    due = today()\n    note(book, due=due)\n    return due", "    end = today()\n    return end"),
    )
    used = changed(BASE, ("    note(book, due=due)\n", "    note(book, due=due)\n    print(due)\n"))
    assert both(renamed, used) is None


def test_one_side_deletes_the_function_that_the_other_changes() -> None:
    gone = changed(BASE, ("def take(book):\n    book.out = False\n    return book\n\n\n", ""))
    assert both(gone, changed(BASE, ("book.out = False", "book.out = None"))) is None


def test_the_same_function_with_another_comment_on_each_side() -> None:
    plain, told = "def burn(book):\n    pass\n\n\n", "def burn(book):\n    # Never.\n    pass\n\n\n"
    sides = [changed(BASE, ("def take", f"{text}def take")) for text in (plain, told)]
    assert both(*sides) == sides[1]


def test_one_side_removes_the_comment_that_the_other_rewrites() -> None:
    base = "a()\n# It rings,\n# and then it stamps.\nb()\n"
    assert both("a()\n# It rings, and\n# then it stamps.\nb()\n", "c()\nb()\n", base) is None


def test_a_comment_that_both_sides_keep_stays() -> None:
    base = "from shelf import a, b, c  # noqa\n"
    result = both("from shelf import a, c  # noqa\n", "from shelf import b, a, c, d  # noqa\n", base)
    assert result is None or "# noqa" in result


def test_what_is_sure_is_merged_beside_a_conflict_that_is_not() -> None:
    ours = changed(BASE, ("import os\n", "import os\nimport re\n"), ('"atlas": 1', '"atlas": 2'))
    theirs = changed(BASE, ("import os\n", "import os\nimport ast\n"), ('"atlas": 1', '"atlas": 3'))
    sides = Sides(BASE, ours, theirs)
    found = merged(sides)
    assert not found.is_whole
    assert (conflicts(sides), conflicts(found.sides)) == (2, 1)
    assert all("import re\n" in text and "import ast\n" in text for text in found.sides)


def test_functions_are_merged_beside_a_conflict_that_is_not() -> None:
    one, other = "def burn(book):\n    return None\n\n\n", "def bind(book):\n    return book\n\n\n"
    ours, theirs = (
        changed(BASE, ("def take", f"{added}def take"), ('"atlas": 1', f'"atlas": {number}'))
        for added, number in ((one, 2), (other, 3))
    )
    found = merged(Sides(BASE, ours, theirs))
    assert (found.is_whole, conflicts(found.sides)) == (False, 1)
    assert all(one in text and other in text for text in found.sides)


def test_one_side_removes_an_import_beside_which_the_other_reads_an_attribute_of_its_name() -> None:
    base = "import sys\nimport os\nx = 1\n"
    assert both(base.replace("import os\n", ""), base.replace("x =", "y = sys.os\nx ="), base) is None


def test_a_clean_merge_by_lines_stands() -> None:
    sides = Sides(BASE, changed(BASE, ("import os\n", "")), changed(BASE, ('"atlas": 1', '"atlas": 2')))
    assert merged(sides).sides.ours == "".join(map(str, by_lines(sides)))


def test_a_clean_merge_by_lines_that_is_no_python() -> None:
    base = "if a:\n    b()\n    c()\n\n\n\nd()\n"
    ours = base.replace("if a:\n    b()\n", "if a:\n    b()\n").replace("    c()\n", "")
    theirs = base.replace("    b()\n", "")
    found = merged(Sides(base, ours, theirs))
    text = found.sides.ours if found.is_whole else marked(found.sides, 7, ("a", "b", "c"))
    assert found.is_whole or text.count("<<<<<<< a\n") == 1


def test_texts_that_contain_markers() -> None:
    base = f'"""\n{"<" * 7} ours\n{"=" * 7}\n{">" * 7} theirs\n"""\n{BASE}'
    ours, theirs = (changed(base, ("import os\n", f"import os\nimport {name}\n")) for name in ("re", "ast"))
    assert both(ours, theirs, base) is not None


@pytest.mark.parametrize("end", ["", "\n"])
def test_the_last_line_has_an_end_as_before(end: str) -> None:
    base = f"import os{end}"
    result = both(f"import os\nimport re{end}", f"import os\nimport ast{end}", base)
    assert result is not None
    assert result.endswith("\n") is bool(end)


@pytest.mark.parametrize(
    "content",
    [
        b"x = (\n",
        b"x = 1\r\n",
        b"\xef\xbb\xbfx = 1\n",
        b"x = '\xe9'\n",
        b"x = 1",
        b"# coding: latin-1\nx = 1\n",
        b"x = 1\0\n",
    ],
    ids=["a syntax error", "CRLF", "a mark", "not UTF-8", "no last line end", "another encoding", "binary"],
)
def test_what_only_git_merges(content: bytes) -> None:
    assert sides_of(b"x = 2\n", content, b"x = 3\n") is None
    assert sides_of(content, b"x = 2\n", b"x = 3\n") is None


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (("pick(", "take("), ("(book, 1)", "(book, 2)")),
        (("(a=1)", "(a=2)"), ("and old:", "and new:")),
    ],
)
def test_each_side_changes_a_header_of_a_match(ours: tuple[str, str], theirs: tuple[str, str]) -> None:
    base = (
        "def sort(book):\n    match pick(book, 1):\n        case Kind(a=1) if ours and old:\n"
        "            note(book)\n        case _:\n            keep(book)\n"
    )
    assert both(changed(base, ours), changed(base, theirs), base) == changed(base, ours, theirs)


SHELVES = "import re\n\n\ndef take(book):\n    return book\n"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('A = re.compile(r"\\d")\n', 'B = re.compile(r"\\w")\n'),
        ("A = 1\n", "B = find(2)\n"),
        ("A: int = 1\n", 'B = frozenset({"x"})\n'),
    ],
)
def test_each_side_adds_a_constant_at_the_same_place(one: str, other: str) -> None:
    ours, theirs = (
        changed(SHELVES, ("\n\n\ndef take", f"\n\n{added}\n\ndef take")) for added in (one, other)
    )
    result = both(ours, theirs, SHELVES)
    assert result is not None
    assert result.index(one) < result.index(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A = make(1)\n", "B = make(2)\n"),  # They may count.
        ("A = 1\n", "A = 2\n"),
        ("A = re.compile(B)\n", 'B = re.compile("x")\n'),
        ("A = 1\n", "find(A)\n"),
        ("A = 1\nfind(1)\n", "B = make(2)\n"),
    ],
)
def test_each_side_adds_what_the_order_may_matter_to(one: str, other: str) -> None:
    ours, theirs = (
        changed(SHELVES, ("\n\n\ndef take", f"\n\n{added}\n\ndef take")) for added in (one, other)
    )
    assert both(ours, theirs, SHELVES) is None


@pytest.mark.parametrize("field", ["{} = auto()", "{}: int = 0"])
def test_each_side_adds_a_field_whose_order_may_matter(field: str) -> None:
    base = f"class Kind(Base):\n    {field.format('a')}\n"
    ours, theirs = (f"{base}    {field.format(name)}\n" for name in "bc")
    assert both(ours, theirs, base) is None


CHECK = "        # Not twice.\n        self.check(book)\n"
LEND = f"    def lend(self, book):\n        due = today()\n{CHECK}        return due\n"
GIVE = f"    def give(self, card):\n        card.out = True\n{CHECK}        note(card)\n"


def test_each_side_adds_a_method_with_a_statement_and_a_comment_of_the_other() -> None:
    base = "class Desk:\n    x = 1\n\n    def take(self):\n        return 1\n"
    ours, theirs = (changed(base, ("    def take", f"{added}\n    def take")) for added in (LEND, GIVE))
    result = both(ours, theirs, base)
    assert result is not None
    assert LEND in result
    assert GIVE in result


def test_each_side_adds_the_same_method_under_another_name() -> None:
    base = "class Desk:\n    x = 1\n\n    def take(self):\n        return 1\n"
    ours, theirs = (
        changed(base, ("    def take", f"{LEND.replace('lend', name)}\n    def take"))
        for name in ("loan", "hand")
    )
    assert both(ours, theirs, base) is None


def test_both_sides_move_a_statement_to_another_function() -> None:
    base = "def a():\n    x()\n    note(1)\n\n\ndef b():\n    y()\n\n\ndef c():\n    z()\n"
    ours = changed(base, ("    x()\n    note(1)\n", "    x(1)\n"), ("    y()\n", "    y()\n    note(1)\n"))
    theirs = changed(base, ("    x()\n    note(1)\n", "    x(2)\n"), ("    z()\n", "    z()\n    note(1)\n"))
    assert both(ours, theirs, base) is None


def test_one_side_makes_a_keyword_positional() -> None:
    base = "add('a', 'b', group='c', dev='d', ttl='t')\n"
    ours = changed(base, ("group='c'", "group=GROUP"))
    assert both(ours, changed(base, ("'b',", "'b', 'd',"), ("dev='d', ", "")), base) == (
        "add('a', 'b', 'd', group=GROUP, ttl='t')\n"
    )


@pytest.mark.parametrize(
    "ours",
    [
        "add('a', 'b', 'x', dev='d', ttl='t')\n",
        "add('a', 'b', dev='e', ttl='t')\n",
        "add('a', 'b', dev='d', ttl='t', *rest)\n",
    ],
)
def test_one_side_makes_a_keyword_positional_that_the_other_changes_or_whose_place_it_takes(
    ours: str,
) -> None:
    base = "add('a', 'b', dev='d', ttl='t')\n"
    assert both(ours, "add('a', 'b', 'd', ttl='t')\n", base) is None


def test_one_side_adds_a_name_of_typing_where_the_other_removes_the_import() -> None:
    base = "import os\nfrom typing import Any\nimport re\n\nx = os, re\n"
    ours, theirs = changed(base, ("from typing import Any\n", "")), changed(base, ("Any", "Any, Optional"))
    assert both(ours, theirs, base) == changed(base, ("Any", "Optional"))
    assert both(ours, changed(theirs, ("x = os, re", "x: Any = os, re")), base) is None
    other = [text.replace("typing", "distutils.util") for text in (ours, theirs, base)]
    assert both(*other) is None


def test_each_side_adds_an_element_with_the_same_comment() -> None:
    base = "x = {\n    'a': 1,\n}\n"
    one, other = (changed(base, ("1,\n", f"1,\n    {added},  # noqa\n")) for added in ("'b': 2", "'c': 3"))
    result = both(one, other, base)
    assert result is not None
    assert result.count("# noqa\n") == 2


@pytest.mark.parametrize("added", ["book.unlock()", "COUNT.append(book)"])
@pytest.mark.parametrize("block", ["if book.out:", "for page in book:", "with book:"])
def test_each_side_adds_a_statement_at_another_depth_of_one_function(block: str, added: str) -> None:
    base = BASE.replace("    book.out = False\n", f"    {block}\n        read(book)\n    book.out = False\n")
    one = changed(
        base, ("        read(book)\n", f"        read(book)\n        first(book)\n        {added}\n")
    )
    other = changed(base, ("        read(book)\n", f"        read(book)\n    second(book)\n    {added}\n"))
    assert both(one, other, base) is None


def test_a_module_of_the_package_that_is_called_typing_moves() -> None:
    base = f"from .typing import Foo\n{BASE}"
    one = changed(base, ("from .typing import Foo", "from .protocol import Foo"))
    other = changed(base, ("from .typing import Foo", "from .typing import Bar, Foo"))
    assert both(one, other, base) is None


@pytest.mark.parametrize(
    ("acts", "reads"),
    [
        ("KINDS.update(a=2)", "NAMES = frozenset(KINDS)"),
        ("KINDS['a'] = 3", "NAMES = [*KINDS]"),
        ("os.limit = 3", "LIMIT = os.limit"),
        ("set_up()", "LIMIT = os.limit"),
    ],
)
def test_each_side_adds_an_effect_or_a_constant_that_reads_it(acts: str, reads: str) -> None:
    assert both(f"{BASE}{acts}\n", f"{BASE}{reads}\n") is None


@pytest.mark.parametrize("more", [", 2", ", *pages"])
def test_one_side_adds_an_argument_behind_one_that_the_other_makes_a_keyword(more: str) -> None:
    base = BASE.replace("note(book, due=due)", "note(book, due)")
    one, other = (
        changed(base, ("note(book, due)", new)) for new in ("note(book, due=due)", f"note(book, due{more})")
    )
    assert both(one, other, base) is None


WORK = "def lend(book, reader):\n    due = today()\n    note(book, due)\n    return due\n"
BLOCKS = {
    "a condition": "    if reader.old:\n        note(book, due)\n",
    "a context": "    with desk.lock:\n        note(book, due)\n",
    "a handler": "    try:\n        note(book, due)\n    except KeyError:\n        pass\n",
}


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_one_side_puts_a_block_around_what_the_other_changes(block: str) -> None:
    ours, theirs = (
        changed(WORK, ("(book, due)", "(book, until=due)")),
        changed(WORK, ("    note(book, due)\n", block)),
    )
    assert both(ours, theirs, WORK) == changed(theirs, ("(book, due)", "(book, until=due)"))


@pytest.mark.parametrize(
    ("block", "ours"),
    [
        ("    for each in book:\n        note(book, due)\n", "    note(book, until=due)\n"),
        (
            "    if reader.old:\n        note(book, due)\n",
            "    sent = note(book, due)\n",
        ),  # Another may read it.
        ("    if reader.old:\n        note(book, due)\n", "    note(book, reader.old)\n"),
        ("    if reader.old:\n        note(book, due)\n", "    if book.new:\n        note(book, due)\n"),
        (
            "    if reader.old:\n        note(book, due)\n    else:\n        ring(due)\n",
            "    note(book, until=due)\n",
        ),
        ("    if reader.old:\n        note(book, due + 1)\n", "    note(book, until=due)\n"),
        ("    if reader.old:\n        note(book, due)\n", "    # Twice.\n    note(book, until=due)\n"),
    ],
    ids=[
        "a loop",
        "a new name",
        "what the condition reads",
        "another condition",
        "another branch",
        "a change inside",
        "a comment above",
    ],
)
def test_one_side_puts_a_block_around_what_the_other_changes_in_a_way_that_may_be_about_it(
    block: str, ours: str
) -> None:
    changed_there, around = (changed(WORK, ("    note(book, due)\n", text)) for text in (ours, block))
    assert both(changed_there, around, WORK) is None


TOLD = changed(BASE, ("    due = today()\n", "    # From today.\n    due = today()\n"))


def test_one_side_rewords_a_comment_above_a_line_that_the_other_changes() -> None:
    ours, line = (
        changed(TOLD, ("# From today.", "# From today on.\n    # Or later.")),
        ("due = today()", "due = now()"),
    )
    assert both(ours, changed(TOLD, line), TOLD) == changed(ours, line)


def test_one_side_rewords_a_comment_above_a_line_that_the_other_removes_with_it() -> None:
    ours = changed(TOLD, ("# From today.", "# From today on."))
    assert (
        both(ours, changed(TOLD, ("    # From today.\n    due = today()\n", "    due = now()\n")), TOLD)
        is None
    )


DESK = """\
class Desk:
    def ring(self):
        self.bell.ring(1)

    def lend(self, book):
        self.note(book)
        return self.kinds.get(book)
"""


def test_one_side_replaces_the_only_use_of_what_the_other_uses_once_more() -> None:
    ring = "    def ring(self):\n        self.bell.ring(1)\n\n"
    ours = changed(DESK, (ring, ring.replace("bell.ring", "gong.strike")))
    theirs = changed(DESK, (ring, f"{ring}    def stop(self):\n        self.bell.ring(0)\n\n"))
    ours, theirs = (
        changed(text, ("self.note(book)", f"self.note(book, {each})"))
        for text, each in ((ours, "now=1"), (theirs, "by=2"))
    )
    assert both(ours, theirs, DESK) is None


@pytest.mark.parametrize(
    ("gone", "used"),
    [
        ("    def ring(self):\n        self.bell.ring(1)\n\n", "self.ring()"),
        ("        self.bell = Bell()\n", "self.bell.stop()"),
    ],
)
def test_one_side_removes_what_the_other_uses_once_more(gone: str, used: str) -> None:
    base = changed(
        DESK,
        (
            "        self.note(book)\n",
            "        self.bell = Bell()\n        self.ring()\n        self.note(book)\n",
        ),
    )
    ours = changed(base, (gone, ""), ("        self.ring()\n", ""), ("self.note(book)", "self.note(book, 1)"))
    theirs = changed(base, ("        self.note(book)\n", f"        self.note(book, now=2)\n        {used}\n"))
    assert both(ours.replace("        self.bell.ring(1)\n", "        pass\n"), theirs, base) is None


def test_one_side_replaces_a_method_of_its_own_that_is_called_as_one_of_a_dictionary() -> None:
    ours = changed(DESK, ("self.kinds.get(book)", "self.kinds.pick(book)"))
    theirs = changed(
        DESK,
        ("        self.note(book)\n", "        self.note(book)\n        self.count = self.kinds.get(1)\n"),
    )
    assert both(ours, theirs, DESK) is None


def test_one_side_uses_a_method_of_a_dictionary_that_the_other_no_longer_uses() -> None:
    ours = changed(DESK, ("        return self.kinds.get(book)\n", "        return self.kinds[book]\n"))
    theirs = changed(
        DESK,
        ("        self.note(book)\n", "        self.note(book)\n        self.count = self.kinds.get(1)\n"),
    )
    result = both(ours, theirs, DESK)
    assert result == changed(
        ours,
        ("        self.note(book)\n", "        self.note(book)\n        self.count = self.kinds.get(1)\n"),
    )


TEXT = 'DOC = """\nname: shelf\nitems:\n  - It lends\n    a book.\n  - It takes a book.\n"""\n'


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (("It takes a book.", "It takes one book."), ("takes a book.\n", "takes a book.\n  - It rings.\n")),
        (("name: shelf", "name: shelves"), ("items:", "entries:")),
        (("    a book.", "    one book."), ("  - It takes", "  - It always takes")),
    ],
)
def test_each_side_changes_another_line_of_a_text(ours: tuple[str, str], theirs: tuple[str, str]) -> None:
    assert both(changed(TEXT, ours), changed(TEXT, theirs), TEXT) == changed(TEXT, theirs, ours) or changed(
        TEXT, ours, theirs
    )


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (("It lends", "It gives"), ("    a book.", "    one book.")),  # One sentence.
        (
            ("takes a book.\n", "takes a book.\n  - It waits.\n"),
            ("takes a book.\n", "takes a book.\n  - It rings.\n"),
        ),
        (("  - It takes a book.\n", ""), ("takes a book.\n", "takes a book.\n  - It rings.\n")),
        (("name: shelf", "title: shelf"), ("shelf\n", "shelf\n  size: 2\n")),
        (("items:\n", "items:\n  size: 2\n"), ("name: shelf\nitems:\n", "entries:\n")),
        (('DOC = """\n', 'DOC = """# \n'), ("name: shelf", "name: shelves")),
    ],
)
def test_each_side_changes_lines_of_a_text_that_belong_together(
    ours: tuple[str, str], theirs: tuple[str, str]
) -> None:
    assert both(changed(TEXT, ours), changed(TEXT, theirs), TEXT) is None
