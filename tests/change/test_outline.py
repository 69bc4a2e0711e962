from __future__ import annotations

import pytest

from patchkit.change.comments import comments
from patchkit.change.outline import outline

SOURCE = b'''\
"""Doc."""
from a import (b,
    c as d)  # why
import x.y

# above
@mark(1)
class K(Base):
    # first
    size = 1; other = 2

    def f(self, n=1):
        """Text.

        More."""
        if n == 1: return 2
        elif n:
            pass
        else:
            # in else
            try:
                go()
            except (A, B) as e:
                stop()
            finally:
                end()
        match n:
            case 1 | 2:
                return "a"
'''
FORMATTED = b'''\
"""Doc."""

from a import b, c as d  # why
import x.y


#  above
@mark(1)
class K(Base):
    # first
    size = 1
    other = 2

    def f(
        self,
        n=1,
    ):
        """Text.

        More.
        """
        if n == 1:
            return 2
        elif n:
            pass
        else:
            # in else
            try:
                go()
            except (A, B) as e:
                stop()
            finally:
                end()
        match n:
            case 1 | 2:
                return 'a'
'''


def meaning(source: bytes) -> tuple[str, object]:
    text = source.decode()
    return outline(text).code, comments(text)


def test_layout_means_nothing() -> None:
    assert meaning(SOURCE) == meaning(FORMATTED.replace(b"#  above", b"# above"))


def test_the_texts_of_items_are_the_file() -> None:
    for source in (SOURCE, FORMATTED):
        assert outline(source.decode()).text == source.decode()


def test_each_item_knows_its_first_line() -> None:
    lines = FORMATTED.decode().splitlines()
    items = [node for node in outline(FORMATTED.decode()).walk() if node.parent is not None]
    assert all(lines[item.line - 1] == item.own.splitlines()[0] for item in items)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"n == 1", b"n == 2"),
        (b"case 1 | 2", b"case 1"),
        (b"(A, B)", b"A"),
        (b"n=1", b"n=2"),
        (b"mark(1)", b"mark(2)"),
        (b"Base", b"Other"),
        (b"c as d", b"c"),
        (b"# in else", b"# elsewhere"),
        (b"            finally", b"            else"),
    ],
)
def test_what_means_something_else_is_something_else(old: bytes, new: bytes) -> None:
    assert meaning(SOURCE.replace(old, new, 1)) != meaning(SOURCE)


def test_a_docstring_means_the_same_in_any_indentation_and_a_string_does_not() -> None:
    text, deeper = '"""One.\n\n    Two."""', '"""One.\n\n        Two."""'
    documented, returned = "def f():\n    {0}\n    return 1\n", "def f():\n    return {0}\n"
    assert outline(documented.format(text)).code == outline(documented.format(deeper)).code
    assert outline(returned.format(text)).code != outline(returned.format(deeper)).code
