from __future__ import annotations

import ast
from pathlib import Path

import pytest

from patchkit.tree.nodes import statements, walk

PROGRAMS = sorted((Path(__file__).parents[2] / "patchkit").rglob("*.py"))
RARE = (
    "import a.b as c\nfrom .a import b as d, e",
    "async def f(a, /, b: int = 1, *c, d=2, **e) -> list[int]:\n    async with a as b, c: yield",
    "async def f():\n    async for [x, *y] in z: await x\n    return [i for i in j if i async for k in l]",
    "lambda g, *h: g[1:2, ...](*c, key=b'', **e)",
    "class B(C, metaclass=D):\n    x: int = f'{a!r:>{b}}' + 'c'\n    y = not x if 1 < x <= 2 else {**x, 'a': {1, 2}}",
    "match x:\n    case {'a': [1, *_], **rest} | B(1, y=None) as found if found: del rest[0]",
    "try:\n    pass\nexcept (E, F) as g:\n    raise g from None\nelse:\n    global h\n    h += (m := -1) ** 2",
)


def assert_same(code: str | bytes) -> None:
    module = ast.parse(code)
    expected = [node for node in ast.walk(module) if not isinstance(node, ast.expr_context)]
    assert [id(node) for node in walk(module)] == [id(node) for node in expected]
    assert [id(node) for node in statements(module)] == [
        id(node) for node in expected if isinstance(node, ast.stmt)
    ]


def test_every_node_but_contexts_and_every_statement_is_found_in_the_order_of_the_standard_library() -> None:
    assert len(PROGRAMS) > 100
    for program in PROGRAMS:
        assert_same(program.read_bytes())


@pytest.mark.parametrize("code", RARE)
def test_so_are_those_of_rare_syntax(code: str) -> None:
    assert_same(code)
