"""A tree's files as syntax trees: caching, and where names are defined."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import libcst as cst
import pytest
from support.toys import MIRROR

from patchkit.tree.modules import Modules
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree


def test_syntax_trees_go_without_the_collector_once_nobody_uses_them(tree: CheckoutTree) -> None:
    gc.disable()
    try:
        modules = Modules(tree)
        assert modules.index.module(MIRROR) is not None
        gone = weakref.ref(modules)
        del modules
        assert gone() is None
    finally:
        gc.enable()


def test_nodes_are_validated_again_after_a_parse(tree: CheckoutTree) -> None:
    assert Modules(tree).get(MIRROR) is not None
    with pytest.raises(cst.CSTValidationError):
        cst.Name("")


@pytest.mark.parametrize(
    "code",
    [
        b"class Desk: ...\n",
        b"class Desk(Shelf): ...\n",
        b"import shop\nclass Desk[Item]: ...\n",
        b"def Desk(): ...\n",
        b"x = 1\nasync def Desk (): ...\n",
        b"class Desk \\\n    (Shelf): ...\n",
        "class Désk: ...\nclass Desk: ...\n".encode(),
    ],
)
def test_a_file_that_defines_a_name_at_its_top_is_among_its_homes(tree: CheckoutTree, code: bytes) -> None:
    assert Modules(OverlayTree(tree, {"srt/desk.py": code})).defining("Desk") == ["srt/desk.py"]


@pytest.mark.parametrize(
    "code", [b"class Desktop: ...\n", b"Desk = 1\n", b"if True:\n    class Desk: ...\n", b"# class Desk:\n"]
)
def test_a_file_that_only_speaks_of_a_name_is_no_home_of_it(tree: CheckoutTree, code: bytes) -> None:
    assert Modules(OverlayTree(tree, {"srt/desk.py": code})).defining("Desk") == []


@pytest.mark.parametrize(
    "code",
    [
        b"class Desk: ...\n",
        b"if True:\n    async def Desk(): ...\n",
        b"# It has a class\ndef Desk(): ...\n",
        b'"""It has a def\n\nclass Desk"""\n\nclass Desk[Item](Shelf): ...\n',
        b"class Desk \\\n    (Shelf): ...\n",
    ],
)
def test_a_file_that_defines_a_name_anywhere_may_define_it(tree: CheckoutTree, code: bytes) -> None:
    assert Modules(OverlayTree(tree, {"srt/desk.py": code})).mentions("srt/desk.py", "Desk")


@pytest.mark.parametrize("code", [b"class Desktop: ...\n", b"Desk = 1\n", b"def the_Desk(): ...\n"])
def test_a_file_without_a_definition_of_a_name_cannot_define_it(tree: CheckoutTree, code: bytes) -> None:
    assert not Modules(OverlayTree(tree, {"srt/desk.py": code})).mentions("srt/desk.py", "Desk")
