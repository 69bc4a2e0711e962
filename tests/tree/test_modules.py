"""A tree's files as syntax trees: caching, and where names are defined."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import libcst as cst
import pytest
from support.toys import MIRROR

from patchkit.tree.bodies import NeededBodies
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


SHELVES = b"""\
def take(book):
    return book


def put(book):
    book.shelf = 1
    return book
"""


def needing(*names: str) -> NeededBodies:
    return NeededBodies(frozenset(names), frozenset())


def parsed(tree: CheckoutTree, note: bytes, *names: str) -> cst.Module:
    """Return the syntax tree for patches that look into these functions; files with the same note are the same."""
    laid = OverlayTree(tree, {"srt/desk.py": SHELVES + note})
    module = Modules(laid, needing(*names)).get("srt/desk.py")
    assert module is not None
    return module


def test_a_plan_of_fewer_patches_takes_the_syntax_tree_of_one_of_more(tree: CheckoutTree) -> None:
    more = parsed(tree, b"# fewer\n", "take", "put")
    assert parsed(tree, b"# fewer\n", "take") is more


def test_a_plan_of_other_patches_has_the_bodies_of_both(tree: CheckoutTree) -> None:
    first = parsed(tree, b"# other\n", "take")
    assert "book.shelf" not in first.code
    both = parsed(tree, b"# other\n", "put")
    assert "book.shelf" in both.code
    assert "return book" in both.code.partition("def put")[0]
    assert parsed(tree, b"# other\n", "take") is parsed(tree, b"# other\n", "take", "put") is both


def test_a_completely_parsed_file_stays_complete(tree: CheckoutTree) -> None:
    laid = OverlayTree(tree, {"srt/desk.py": SHELVES + b"# whole\n"})
    whole = Modules(laid).get("srt/desk.py")
    assert whole is not None
    assert whole.bytes == SHELVES + b"# whole\n"
    assert parsed(tree, b"# whole\n", "take") is whole


def test_a_file_requested_completely_is_parsed_completely_whatever_was_before(tree: CheckoutTree) -> None:
    assert "book.shelf" not in parsed(tree, b"# later\n", "take").code
    laid = OverlayTree(tree, {"srt/desk.py": SHELVES + b"# later\n"})
    modules = Modules(laid)
    whole = modules.get("srt/desk.py")
    assert whole is not None
    assert whole.bytes == SHELVES + b"# later\n"


def test_what_is_parsed_again_for_others_leaves_a_plan_in_progress_as_it_is(tree: CheckoutTree) -> None:
    laid = OverlayTree(tree, {"srt/desk.py": SHELVES + b"# meanwhile\n"})
    modules = Modules(laid, needing("take"))
    module = modules.get("srt/desk.py")
    assert module is not None
    parsed(tree, b"# meanwhile\n", "put")
    assert modules.restored("srt/desk.py", module.bytes) == SHELVES + b"# meanwhile\n"
