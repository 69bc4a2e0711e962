from __future__ import annotations

import pytest

from patchkit.transaction.outline import Outline

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


def meanings(source: bytes) -> dict[object, list[object]]:
    return {name: [unit.key for unit in units] for name, units in Outline(source).scopes.items()}


def test_layout_means_nothing() -> None:
    assert meanings(SOURCE) == meanings(FORMATTED)


def test_every_line_that_is_not_blank_is_in_a_unit() -> None:
    outline = Outline(FORMATTED)
    covered = {
        line for units in outline.scopes.values() for unit in units for line in range(unit.start, unit.end)
    }
    assert {n for n, line in enumerate(outline.lines) if line.strip()} <= covered


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
    assert meanings(SOURCE.replace(old, new, 1)) != meanings(SOURCE)


def test_scopes_of_one_name_are_told_apart() -> None:
    source = b"class A:\n    @property\n    def x(self): ...\n    @x.setter\n    def x(self, v): ...\n"
    outline = Outline(source)
    assert len(outline.scopes) == 4
    assert {outline.count(name) for name in outline.scopes if len(name) == 2} == {2}


def test_a_comment_that_code_was_wrapped_with_means_something_else() -> None:
    plain = b"def f(a):\n    # say why\n    use(a)\n"
    wrapped = b"def f(a):\n    if a:\n        # say why\n        use(a)\n"
    said = [
        unit.key
        for source in (plain, wrapped)
        for unit in Outline(source).scopes[("f", ""),]
        if unit.is_comment
    ]
    assert said == [("#", "say why", 0), ("#", "say why", 1)]
