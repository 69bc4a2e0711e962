from __future__ import annotations

import libcst as cst
import pytest
from support.programs import program, scope_in

from patchkit.codemods.language import syntax
from patchkit.codemods.language.scope import base_names, members, resolve

LIBRARY = program("""
    import shop

    class Desk(shop.Counter, Loud[int]):
        if shop.open:
            def lend(self): ...
        else:
            def lend(self): return None

        class Drawer:
            def pull(self):
                def inner(): ...

    try:
        from shop import Shelf
    except ImportError:
        class Shelf: ...

    with shop.closed():
        def audit(): ...

    def lend(): ...
""")


def names(dotted: str) -> list[str]:
    return [scope.name for scope in resolve(cst.parse_module(LIBRARY), dotted)]


def test_module_is_the_scope_without_a_name() -> None:
    (scope,) = resolve(cst.parse_module(LIBRARY), "")
    assert scope.node is scope.module
    assert scope.block == ()


@pytest.mark.parametrize(
    "dotted", ["Desk", "Desk.Drawer", "Desk.Drawer.pull", "Desk.Drawer.pull.inner", "lend"]
)
def test_definition_is_found_by_its_dotted_name(dotted: str) -> None:
    assert names(dotted) == [dotted]


@pytest.mark.parametrize("dotted", ["Shelf", "audit"])
def test_definition_under_try_or_with_is_found(dotted: str) -> None:
    assert names(dotted) == [dotted]


def test_definition_on_both_sides_of_an_if_is_found_twice() -> None:
    assert names("Desk.lend") == ["Desk.lend", "Desk.lend"]


@pytest.mark.parametrize("dotted", ["desk", "Drawer", "Desk.pull", "shop", "pull"])
def test_name_that_is_not_defined_there_is_not_found(dotted: str) -> None:
    assert names(dotted) == []


def test_members_are_a_scopes_own() -> None:
    (desk,) = resolve(cst.parse_module(LIBRARY), "Desk")
    assert [node.name.value for _, node in members(desk)] == ["Drawer", "lend", "lend"]


def test_members_stand_at_their_paths() -> None:
    module = cst.parse_module(LIBRARY)
    (top,) = resolve(module, "")
    for path, node in members(top):
        assert syntax.node_at(module, path) is node


def test_class_without_members() -> None:
    assert list(members(scope_in("class Shelf: pass\n", "Shelf"))) == []


def test_bases_go_by_their_last_names() -> None:
    node = scope_in("class Desk(shop.Counter, Plain, metaclass=Meta): ...\n", "Desk").node
    assert isinstance(node, cst.ClassDef)
    assert base_names(node) == ("Counter", "Plain")


def test_base_with_type_arguments_goes_by_its_own_name() -> None:
    node = scope_in("class Desk(shop.Counter[a.b], Loud[int]): ...\n", "Desk").node
    assert isinstance(node, cst.ClassDef)
    assert base_names(node) == ("Counter", "Loud")


def test_body_can_be_replaced() -> None:
    scope = scope_in("class Shelf:\n    wide = 1\n    deep = 2\n", "Shelf")
    assert scope.with_body(scope.body[1:]).code == "class Shelf:\n    deep = 2\n"


def test_same_body_leaves_the_text() -> None:
    scope = scope_in(LIBRARY, "Desk")
    assert scope.with_body(scope.body).code == LIBRARY


def test_body_on_the_line_of_its_header_gets_lines_of_its_own() -> None:
    scope = scope_in("class Shelf(Box): wide = 1; deep = 2  # in feet\n", "Shelf")
    assert scope.with_body(scope.body).code == program("""
        class Shelf(Box):
            wide = 1
            deep = 2  # in feet
    """)
