from __future__ import annotations

import pytest
from support.programs import check_noop, edit, examine, program

from patchkit.codemods.examination import SiteState


def made(source: str, keys: dict[str, object]) -> str:
    """Return what items make of a program, without the note."""
    found = examine(edit("items", **keys), program(source))
    assert found.state is SiteState.READY, found.reason
    assert found.rewrite is not None
    return "\n".join(line for line in found.rewrite().code.splitlines() if "# toy" not in line).strip()


@pytest.mark.parametrize(
    ("source", "keys", "after"),
    [
        ("f(a, b)", {"list": "arguments", "code": ["c"], "behind": "b"}, "f(a, b, c)"),
        ("f(a, b)", {"list": "arguments", "code": ["c"], "before": "a"}, "f(c, a, b)"),
        ("f(a, b)", {"list": "arguments", "find": ["b"], "behind": "a"}, "f(a)"),
        ("f(a, b=1)", {"list": "arguments", "find": ["b=1"], "code": ["b=2", "c=3"]}, "f(a, b=2, c=3)"),
        (
            "x = {'a': 1}",
            {"list": "elements", "code": ["'b': 2"], "behind": "'a': 1"},
            "x = {'a': 1, 'b': 2}",
        ),
        ("x = a or b", {"list": "operands", "find": ["a"], "before": "b"}, "x = b"),
        ("x = a or b", {"list": "operands", "code": ["c and d"], "behind": "a"}, "x = a or (c and d) or b"),
        (
            "x = (a and b) or c",
            {"list": "operands", "code": ["d"], "behind": "b"},
            "x = (a and b and d) or c",
        ),
        ("from m import a", {"list": "names", "code": ["b as c"], "of": "m"}, "from m import a, b as c"),
        ("from .m import (a, b)", {"list": "names", "find": ["a"], "of": ".m"}, "from .m import (b)"),
    ],
)
def test_items_change_in_lists(source: str, keys: dict[str, object], after: str) -> None:
    assert made(source, keys) == after


@pytest.mark.parametrize(
    ("source", "keys"),
    [
        ("from m import a", {"list": "names", "find": ["a"], "of": "m"}),
        ("x = {1}", {"list": "elements", "find": ["1"], "of": "x"}),
        ("f(b=1)", {"list": "arguments", "code": ["a"], "behind": "b=1", "of": "f"}),
    ],
)
def test_what_would_be_no_python_is_a_conflict(source: str, keys: dict[str, object]) -> None:
    check_noop(edit("items", **keys), source, SiteState.ABSENT, reason="would not be valid Python")


def test_a_keyword_argument_comes_last_where_its_neighbours_are_gone() -> None:
    keys: dict[str, object] = {"list": "arguments", "code": ["days=14"], "behind": "to=reader", "of": "lend"}
    assert made("lend(book)", keys) == "lend(book, days=14)"


def test_an_argument_by_position_needs_a_neighbour() -> None:
    codemod = edit("items", list="arguments", code=["14"], behind="reader", of="lend")
    check_noop(codemod, "lend(book)", SiteState.ABSENT, "", "expected `reader` among the arguments")


def test_an_item_of_another_call_is_not_meant() -> None:
    codemod = edit("items", list="arguments", find=["14"], code=["7"], of="lend")
    check_noop(codemod, "sell(book, 14)", SiteState.ABSENT, "", "expected `14` among the arguments")


def test_comments_beside_the_other_items_stay() -> None:
    source = """
    f(
        a,  # one
        b,  # two
    )
    """
    after = made(source, {"list": "arguments", "code": ["c"], "behind": "b"})
    assert "# one" in after
    assert "# two" in after
