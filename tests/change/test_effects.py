"""Whether the order of two runs of statements matters, and whether one may be a variant of the other."""

from __future__ import annotations

import pytest

from patchkit.change.effects import clash, may_exit, may_leave, order_matters
from patchkit.change.outline import Item, outline


def items(code: str) -> list[Item]:
    return list(outline(f"{code}\n").children)


def branches(code: str) -> list[Item]:
    """Return the branches of the one statement, the first one left out."""
    (statement,) = items(code)
    return [node for node in statement.walk() if node.kind in {"elif", "except", "case"}]


@pytest.mark.parametrize(
    ("one", "other", "matters"),
    [
        ("a = 1", "b = 2", False),
        ("a = 1", "b = a", True),
        ("b = a", "a = 1", True),
        ("a = 1", "a = 2", True),
        ("b = a", "c = a", False),
        ("a.b = 1", "c = a.b", True),
        ("a.b = 1", "c = a.d", False),
        ("a[0] = 1", "c = a", True),
        ("del a", "b = a", True),
        ("import a", "b = a", True),
        ("from a import b", "c = b", True),
        ("def a(): ...", "b = a", True),
        ("for a in c: pass", "b = a", True),
        ("if c:\n    a = 1", "b = a", True),
        ("return a", "b = 2", True),
        ("b = 2", "raise a", True),
        ("if c:\n    continue", "b = 2", True),
        ("a.add(1)", "a.add(2)", True),
        ("add(a)", "other(a)", True),
        ("add(to=a)", "other(a)", True),
        ("add(a)", "other(b)", False),
        ("self.add(1)", "self.other(2)", False),
        ("logger.add(1)", "logger.other(2)", False),
        ("b = add(a)", "c = other(a)", False),
        ("if c:\n    add(a)", "a.other()", True),
    ],
)
def test_the_order_of_two_runs(one: str, other: str, matters: bool) -> None:
    assert order_matters(items(one), items(other)) is matters


@pytest.mark.parametrize(
    ("one", "other", "matters"),
    [
        ("a == 1", "a == 2", False),
        ("a == 1", "a == 1", True),
        ("a == 1", "b == 2", True),
        ("a == 1", "a == c", True),
        ("a is None", "a is True", False),
        ("a != 1", "a == 2", True),
        ("a in (1, 2)", "a == 3", False),
        ("a in [1, 2]", "a in {3, 4}", False),
        ("a in (1, 2)", "a in (2, 3)", True),
        ("a in ()", "a == 1", True),
        ("a in c", "a == 1", True),
        ("a == 1 == c", "a == 2", True),
        ("a", "a == 2", True),
    ],
)
def test_the_order_of_two_branches(one: str, other: str, matters: bool) -> None:
    first, second = branches(f"if x:\n    a\nelif {one}:\n    b\nelif {other}:\n    c")
    assert order_matters([first], [second]) is matters


@pytest.mark.parametrize(
    ("one", "other", "matters"),
    [
        ("1", "2", False),
        ("1 | 2", "3", False),
        ("1 | 2", "2", True),
        ("None", "True", False),
        ("1", "[2]", True),
    ],
)
def test_the_order_of_two_cases(one: str, other: str, matters: bool) -> None:
    first, second = branches(f"match x:\n    case {one}:\n        b\n    case {other}:\n        c")
    assert order_matters([first], [second]) is matters


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("a = 1", "a = 2", "assigns a too"),
        ("a = 1", "b = 2", ""),
        ("b.a = c.a = 1", "c.a = b.a = 2", "assigns b.a too"),
        ("a[0] = 1", "a[0] = 2", "assigns a[0] too"),
        ("a[0] = 1", "a[1] = 2", ""),
        ("a += 1", "a += 2", ""),
        ("a += 1\nb = 1", "b = 2", "assigns b too"),
        ("import a", "import a", "assigns a too"),
        ("from x import a", "a = 1", "assigns a too"),
        ("def a(): ...", "class a: ...", "assigns a too"),
        ("if a > 1:\n    b()", "if a > 1:\n    c()", "tests a > 1 too"),
        ("if a > 1:\n    b()", "if a > 2:\n    c()", ""),
        ("if a:\n    b = 1", "if a:\n    b = 2", "tests a too"),
        ("print(a)", "print(a)", ""),
    ],
)
def test_what_two_runs_both_do(one: str, other: str, said: str) -> None:
    assert clash(items(one), items(other)) == said


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("a == 1", "a == 2", "tests a too"),
        ("a.b == 1", "a.b == 2", "tests a.b too"),
        ("a.b == 1", "a.c == 2", ""),
        ("f(a)", "f(b)", ""),
        ("f(b, a)", "g(a, b)", "tests a too"),
    ],
)
def test_what_two_branches_both_test(one: str, other: str, said: str) -> None:
    first, second = branches(f"if x:\n    a\nelif {one}:\n    b\nelif {other}:\n    c")
    assert clash([first], [second]) == said


@pytest.mark.parametrize(
    ("code", "leaves", "exits"),
    [
        ("a = 1", False, False),
        ("a()", True, False),
        ("await a()", True, False),
        ("b = a()", False, False),
        ("assert a", True, False),
        ("return", True, True),
        ("raise a", True, True),
        ("if a:\n    return", True, True),
        ("if a:\n    b()", False, False),
        ("for a in b:\n    break", True, True),
        ("def a():\n    return 1", False, False),
        ("lambda: a()", False, False),
        ("if a:\n    b()\nelse:\n    continue", True, True),
        ("try:\n    a()\nfinally:\n    b = 1", False, False),
        ("try:\n    b = 1\nexcept a:\n    raise", True, True),
        ("match a:\n    case 1:\n        return b", True, True),
        ("with a:\n    b = 1", False, False),
    ],
)
def test_a_statement_that_may_leave(code: str, leaves: bool, exits: bool) -> None:
    (item,) = items(code)
    assert may_leave(item) is leaves
    assert may_exit(item) is exits


def test_a_branch_may_leave_if_a_statement_in_it_does() -> None:
    code = "if a:\n    b = 1\nelif c:\n    return\nelse:\n    assert d\n    e = 1\n"
    (item,) = items(code)
    assert [(each.kind, may_leave(each)) for each in item.walk()] == [
        ("If", True),
        ("if", False),
        ("Assign", False),
        ("elif", True),
        ("Return", True),
        ("else", False),
        ("Assert", True),
        ("Assign", False),
    ]
