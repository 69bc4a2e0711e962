"""Three versions of a statement are merged, or conflict."""

from __future__ import annotations

import pytest

from patchkit.change.statements import merged
from patchkit.change.tokens import ClashError

MERGED = {
    "a keyword beside one that is missing": ("f(a, b, c=1)", "f(a, b, c=1, d=2)", "f(a, b)", "f(a, b, d=2)"),
    "another function, and an argument less": ("f(a, new)", "g(a, new)", "f(a)", "g(a)"),
    "one name after the other": (
        "from x import (\n    a,\n    b,\n)",
        "from x import (\n    a,\n    b,\n    c,\n)",
        "from x import (\n    a,\n)",
        "from x import (\n    a,\n    c,\n)",
    ),
    "a value and a type": ("x: int = 1", "x: int = 2", "x: float = 1", "x: float = 2"),
    "a parameter and a type": (
        "def f(self, a, b=1):",
        "def f(self, a, b=1, c=2) -> None:",
        "def f(self, a):",
        "def f(self, a, c=2) -> None:",
    ),
    "conditions of a chain": ("if a and b and c:", "if a and b and d:", "if a and c:", "if a and d:"),
    "another condition where one is missing": ("if a and b:", "if a and b and c:", "if a:", "if a and c:"),
    "the last element of one line": ("f(a)", "f(a, b)", "f(\n    a,\n)", "f(\n    a, b,\n)"),
    "the only element that both had, with a comma behind the last": (
        "f(a)",
        "f()",
        "f(\n    a,\n    b,\n)",
        "f(\n    b,\n)",
    ),
    "a comma behind the last that the change alone has": (
        "x = [a]",
        "x = [a, b,]",
        "x = [c, a]",
        "x = [c, a, b]",
    ),
    "an element behind the same one as that of this tree": (
        "x = [a, z]",
        "x = [a, n, z]",
        "x = [a, m, z]",
        "x = [a, n, m, z]",
    ),
    "each element beside its nearest neighbour": (
        "x = [a, z]",
        "x = [a, n, o, z]",
        "x = [a, m, z]",
        "x = [a, n, m, o, z]",
    ),
    "first elements": ("x = [z]", "x = [n, z]", "x = [m, z]", "x = [m, n, z]"),
    "last elements": ("x = [a]", "x = [a, n]", "x = [a, m]", "x = [a, m, n]"),
    "the first word goes": ("await f(a)", "f(a)", "await f(b)", "f(b)"),
    "a keyword where another argument follows": ("f(a)", "f(a, k=1)", "f(a, b)", "f(a, b, k=1)"),
    "an argument where a keyword follows": ("f(a)", "f(a, b)", "f(a, k=1)", "f(a, b, k=1)"),
    "a parameter with a default behind another one": (
        "def f(a):",
        "def f(a, c=1):",
        "def f(a, b=2, *, d=3):",
        "def f(a, b=2, c=1, *, d=3):",
    ),
    "an argument between two that stay": (
        "f(a, g(x) + 1, c)",
        "f(a, g(x) + 2, c)",
        "f(a, g(y) + 1, c, d)",
        "f(a, g(y) + 2, c, d)",
    ),
    "other words of a message": (
        "say(f'{a.b} is none of: x, y.')",
        "say(f'{a.b} is none of: x, y, or z.')",
        "say(f'{c.b} is none of: x, y.')",
        "say(f'{c.b} is none of: x, y, or z.')",
    ),
    "other lines of a docstring": (
        '"""Lend.\n\n    A book.\n    """',
        '"""Lend it.\n\n    A book.\n    """',
        '"""Lend.\n\n    A book or a card.\n    """',
        '"""Lend it.\n\n    A book or a card.\n    """',
    ),
    "each comment behind its element": (
        "x = [\n    a,  # one\n]",
        "x = [\n    a,  # one\n    b,  # two\n]",
        "x = [\n    a,  # one\n    c,  # three\n]",
        "x = [\n    a,  # one\n    c,  # three\n    b,  # two\n]",
    ),
    "an element between others with comments": (
        "x = [\n    a,  # one\n    c,  # three\n]",
        "x = [\n    a,  # one\n    b,\n    c,  # three\n]",
        "x = [\n    a,  # one\n    c,  # three\n    d,  # four\n]",
        "x = [\n    a,  # one\n    b,\n    c,  # three\n    d,  # four\n]",
    ),
    "an element behind one that gets its comma": (
        "f(\n    a  # one\n)",
        "f(\n    a,  # one\n    b  # two\n)",
        "f(\n    a,  # one\n    k=1,  # three\n)",
        "f(\n    a,  # one\n    b,  # two\n    k=1,  # three\n)",
    ),
    "an element goes with its comment": (
        "x = [\n    a,  # one\n    b,  # two\n]",
        "x = [\n    a,  # one\n]",
        "x = [\n    a,  # one\n    b,  # two\n    c,  # three\n]",
        "x = [\n    a,  # one\n    c,  # three\n]",
    ),
    "another comment behind an element": (
        "f(\n    a=1,  # one\n    b=2,\n)",
        "f(\n    a=3,  # three\n    b=2,\n)",
        "f(\n    a=1,  # one\n    b=4,\n)",
        "f(\n    a=3,  # three\n    b=4,\n)",
    ),
    "a comment that this version removed": (
        "f(\n    a=1,  # one\n    b=2,\n)",
        "f(\n    a=3,  # three\n    b=2,\n)",
        "f(\n    a=1,\n    b=4,\n)",
        "f(\n    a=3,\n    b=4,\n)",
    ),
    "code behind a comment has its own line": (
        "x = [\n    a, c,\n]",
        "x = [\n    a,\n    b,  # two\n    c,\n]",
        "x = [\n    a, c, d,\n]",
        "x = [\n    a,\n    b,  # two\n    c, d,\n]",
    ),
}
CLASHES = {
    "the same word": ("x = 1", "x = 2", "x = 3"),
    "neighbours": ("x = a(b)", "x = c(b)", "x = d(b)"),
    "another operator": ("if a and b:", "if a or b:", "if a and c:"),
    "a type with a value": ("x: int | None = 1", "x: int | str | None = 1", "x: None = 1"),
    "two arguments of one name": ("f(a)", "f(a, b=1)", "f(a, b=2)"),
    "the same words of a message": ("f('a b c')", "f('a x c')", "f('a y c')"),
    "neighbouring words of a message": ("f('a b c d')", "f('a x c d')", "f('a b y d')"),
    "another string": ("f('a.b')", "f('a.c')", "f('d.b')"),
    "a parameter among others that have defaults": ("def f(a):", "def f(a, c):", "def f(a, b=1):"),
    "the comment behind an element": (
        "f(\n    a=1,  # one\n    b=2,\n)",
        "f(\n    a=1,  # two\n    b=3,\n)",
        "f(\n    a=1,  # three\n    b=2,\n)",
    ),
    "a comment behind an element of one line": (
        "f(a, c)",
        "f(a, b,  # two\n  c)",
        "f(a, c, d=1)",
    ),
    "open brackets": ("f(a", "f(b", "f(c"),
}


@pytest.mark.parametrize(("base", "theirs", "ours", "made"), MERGED.values(), ids=MERGED)
def test_what_both_change_apart_comes_to_both(base: str, theirs: str, ours: str, made: str) -> None:
    assert merged(base, theirs, ours) == made


@pytest.mark.parametrize(("base", "theirs", "ours"), CLASHES.values(), ids=CLASHES)
def test_what_both_change_clashes(base: str, theirs: str, ours: str) -> None:
    with pytest.raises(ClashError):
        merged(base, theirs, ours)
