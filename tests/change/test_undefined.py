"""The names that a change of a file leaves undefined, each with its line."""

from __future__ import annotations

import pytest

from patchkit.change.undefined import unbound_names, undefined_names

TYPED = b"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import Book, Card as Item\n"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (b"x = nobody\n", [("nobody", 1)]),
        (b"def f():\n    return nobody\n", [("nobody", 2)]),
        (b"def f():\n    x = nobody\n    y = nowhere\n", [("nobody", 2), ("nowhere", 3)]),
        (b"import nobody\nx = nobody\n", []),
        (b"def f(nobody):\n    return nobody\n", []),
        (b"def f():\n    return later\n\n\nlater = 1\n", []),
        (b"x = nobody.nowhere\n", [("nobody", 1)]),
        (b"f = print\nx = f(nobody=1)\n", []),
        (b"x = (\n", []),
        (b"", []),
        # What only type checkers import, and running code reads.
        (TYPED + b"x = Book()\n", [("Book", 3)]),
        (TYPED + b"x = Item()\n", [("Item", 3)]),
        (TYPED + b"def f(x: 'Book'): ...\n", []),
    ],
)
def test_the_names_that_nothing_defines(source: bytes, names: list[tuple[str, int]]) -> None:
    assert undefined_names(b"", source) == names
    assert undefined_names(source, source) == []
    assert undefined_names(b"", source, source) == []
    assert undefined_names(b"", source, b"x = other\n") == names


def test_names_that_were_undefined_before_are_left_out_one_by_one() -> None:
    before, after = b"x = nobody\n", b"y = 1\nx = nobody\nz = nowhere\n"
    assert undefined_names(before, after) == [("nowhere", 3)]
    assert undefined_names(before, after, b"z = nowhere\n") == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (b"def f():\n    x = y\n    y = 1\n", [("y", 2)]),
        (b"def f():\n    print(nobody)\n", [("nobody", 2)]),
        (b"def f():\n    y = 1\n    return y\n", []),
        (TYPED + b"x = Book()\n", []),
    ],
)
def test_the_names_that_are_read_before_they_are_bound(source: bytes, names: list[tuple[str, int]]) -> None:
    assert unbound_names(source) == names
