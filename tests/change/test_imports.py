"""Imports as the names that they import."""

from __future__ import annotations

import pytest

from patchkit.change.imports import bound, import_of, import_place, imported, joined
from patchkit.change.outline import Item, outline


def item(code: str) -> Item:
    (found,) = outline(f"{code}\n").children
    return found


@pytest.mark.parametrize(
    ("code", "names", "binds"),
    [
        ("import a, b.c as d", ["import a", "import b.c as d"], ["a", "d"]),
        ("import a.b", ["import a.b"], ["a"]),
        ("from a import b, c as d", ["from a import b", "from a import c as d"], ["b", "d"]),
        ("from ..a import b", ["from ..a import b"], ["b"]),
        ("from . import b", ["from . import b"], ["b"]),
        ("a = 1", [], []),
    ],
)
def test_the_names_of_an_import(code: str, names: list[str], binds: list[str]) -> None:
    assert imported(item(code)) == names
    assert list(map(bound, names)) == binds


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "made"),
    [
        ("from a import b", "from a import b, c", "from a import b", "from a import b, c\n"),
        ("from a import b", "from a import b, c", "from a import own, b", "from a import own, b, c\n"),
        ("from a import b, c", "from a import b", "from a import c, own, b", "from a import own, b\n"),
        ("from a import b", "from a import b, c", "from a import c, b", "from a import c, b\n"),
        ("from a import b", None, "from a import b, own", "from a import own\n"),
        ("from a import b", None, "from a import b", ""),
        ("import a", "import a, c", "import a", ""),
        ("from a import b", "import b", "from a import b", ""),
        ("b = 1", "from a import b", "from a import b", ""),
    ],
)
def test_names_are_added_and_removed(base: str, theirs: str | None, ours: str, made: str) -> None:
    assert joined(item(base), None if theirs is None else item(theirs), item(ours)) == made


def test_an_import_that_is_too_long_or_in_parentheses_has_a_line_for_each_name() -> None:
    plain, wrapped = item("from a import b"), item("from a import (\n    b,\n)")
    assert import_of(["import a", "import b"], plain) == "import a, b\n"
    assert (
        import_of(["from a import b", "from a import c"], wrapped) == "from a import (\n    b,\n    c,\n)\n"
    )
    fitting = "x" * (88 - len("from a import b, \n"))
    assert (
        import_of(["from a import b", f"from a import {fitting}"], plain) == f"from a import b, {fitting}\n"
    )
    made = import_of(["from a import b", f"from a import {fitting}x"], plain)
    assert made == f"from a import (\n    b,\n    {fitting}x,\n)\n"


@pytest.mark.parametrize(
    ("code", "at"),
    [
        ("import a\nx = 1\nimport b\ny = 2\n", 3),
        ("import a\ndef f(): ...\nimport b\n", 1),
        ('"""Doc."""\nx = 1\n', 1),
        ("x = 1\n", 0),
        ("def f(): ...\nimport b\n", 0),
        ("", 0),
    ],
)
def test_the_place_of_a_new_import(code: str, at: int) -> None:
    assert import_place(outline(code)) == at
