"""What a scope defines is the same to all that ask: they read the same branches, and the same statements bind."""

from __future__ import annotations

import ast

import libcst as cst
import pytest

from patchkit.change.outline import outline
from patchkit.codemods.language.scope import resolve
from patchkit.porting.dependencies import Definition, _definitions
from patchkit.tree.index import index_module
from patchkit.tree.nodes import bound_names, own_statements
from patchkit.verify.runtime import names_in

DESK = "def desk():\n    inside = 1\n"
BRANCHES = [
    "{}",
    "if a:\n{}",
    "if a:\n    pass\nelif b:\n{}",
    "if a:\n    pass\nelse:\n{}",
    "try:\n{}finally:\n    pass\n",
    "try:\n    pass\nexcept A:\n{}",
    "try:\n    pass\nexcept A:\n    pass\nelse:\n{}",
    "try:\n    pass\nfinally:\n{}",
    "with a:\n{}",
    "for a in b:\n{}",
    "for a in b:\n    pass\nelse:\n{}",
    "while a:\n{}",
    "match a:\n    case 1:\n    {}",
]


def branched(branch: str, code: str) -> str:
    indent = " " * 4 * (1 + branch.startswith("match"))
    text = code if branch == "{}" else "".join(f"{indent}{line}\n" for line in code.splitlines())
    return branch.replace("    {}", "{}").format(text)


@pytest.mark.parametrize("branch", BRANCHES)
def test_a_function_in_any_branch_is_defined_to_all_that_ask(branch: str) -> None:
    source = branched(branch, DESK)
    module = index_module("a.py", source.encode())
    assert list(module.functions) == ["desk"]
    assert "desk" in names_in(module.tree)
    assert "inside" not in names_in(module.tree)
    assert Definition("name", "", "desk") in _definitions("a.py", source.encode())
    assert len(resolve(cst.parse_module(source), "desk")) == 1
    assert outline(source).find("desk") is not None


@pytest.mark.parametrize("branch", BRANCHES)
def test_so_is_a_method(branch: str) -> None:
    body = "".join(f"    {line}\n" for line in branched(branch, DESK).splitlines())
    source = f"class Library:\n{body}"
    module = index_module("a.py", source.encode())
    assert list(module.classes["Library"].methods) == ["desk"]
    assert Definition("attribute", "Library", "desk") in _definitions("a.py", source.encode())
    assert len(resolve(cst.parse_module(source), "Library.desk")) == 1
    assert outline(source).find("Library.desk") is not None


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import a.b, c as d\nfrom .e import f as g, h", "a d g h"),
        ("async def f(): x = 1", "f"),
        ("class A: x = 1", "A"),
        ("a: int = 1\nb += 1\nc, (d, *e) = f", "a b c d e"),
        ("a[b] = c.d = 1\ndel e", ""),
        ("a = [b for b in c if (d := b)]", "a d"),
        ("a = lambda: (b := 1)", "a"),
        ("for a in b: c = 1", "a c"),
        ("with a as b, c as (d, e): pass", "b d e"),
        ("try: pass\nexcept A as b: c = 1\nelse: d = 1\nfinally: e = 1", "b c d e"),
        ("match a:\n    case {'a': [1, *b], **c} | D(1, y=None) as e if (f := 1): g = 1", "b c e f g"),
    ],
)
def test_the_names_that_code_binds(code: str, names: str) -> None:
    module = ast.parse(code)
    assert names_in(module) == set(names.split())
    assert {name for node in own_statements(module.body) for name in bound_names(node)} == names_in(module)
    found = {
        definition.name for definition in _definitions("a.py", code.encode()) if definition.kind == "name"
    }
    assert found == names_in(module)


def test_a_group_of_exceptions_is_handled_as_others_are() -> None:
    source = "try:\n    a = 1\nexcept* (A, B) as b:\n    c = 1\n"
    try:
        module = ast.parse(source)
    except SyntaxError:
        pytest.skip("this Python does not know them")
    assert names_in(module) == {"a", "b", "c"}
    assert [part.kind for part in outline(source).children[0].children] == ["try", "except"]
