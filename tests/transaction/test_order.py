"""What stands in a tree depends on the set of its patches, not on the order in which they came and went."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.toys import (
    ABRUPT,
    CRLF,
    MIRROR,
    SOURCES,
    attribute,
    edit,
    everything,
    making,
    rewriting,
    statement,
    toy,
    write_package,
)

from patchkit import api
from patchkit.patchset.select import PatchSet
from patchkit.transaction.revert import recorded
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree

IDS = ("z-last", "q-none", "m-twin", "a-twin", "k-none-too", "b-file", "g-method", "c-method", "e-import")


def method(name: str, imports: str = "") -> str:
    """Return the text of an edit that gives the mirror a method."""
    brought = f'\nimports = ["{imports}"]' if imports else ""
    return (
        f'[edit.{name}]\nkind = "method"\nwhy = "toy"\nat = "{MIRROR}::Mirror"\n'
        f"code = '''def {name}(self): return {name}_of(self)'''{brought}"
    )


PATCHES = PatchSet(
    (
        toy("z-last", statement("insert-after", "after", MIRROR, "depth = 1", "last()"), method("last")),
        toy("q-none", rewriting("none", f"{MIRROR}::Mirror", "copies = 0", "copies = None")),
        toy("m-twin", attribute(CRLF, "Backend", "needs_host = False"), method("twin")),
        toy(
            "a-twin", attribute(CRLF, "Backend", "needs_host = False"), attribute(ABRUPT, "Worker", "own = 1")
        ),
        toy(
            "k-none-too",
            rewriting("more", f"{MIRROR}::Mirror", "copies = None", "copies = None\nspares = None"),
            requires='["q-none"]',
        ),
        toy("b-file", making("srt/fresh/new.py", "made = 1"), attribute(CRLF, "Backend", "made = 1")),
        toy("g-method", method("given"), statement("insert-before", "up", MIRROR, "depth = 1", "given()")),
        toy("c-method", method("called", "from toolbox import called_of"), hardens='["q-none"]'),
        toy(
            "e-import",
            method("even", "from toolbox import even_of"),
            statement("insert-after", "down", MIRROR, "depth = 1", "even()"),
        ),
    ),
    "toys",
)


@cache
def made_at_once(ids: frozenset[str]) -> dict[str, tuple[int, bytes]]:
    with tempfile.TemporaryDirectory() as folder:
        tree = open_tree(write_package(Path(folder) / "sglang"))
        if ids:
            api.apply(tree, PATCHES, tuple(ids), only=True)
            assert set(recorded(tree)) == ids
        return code(tree.package)


def code(package: Path) -> dict[str, tuple[int, bytes]]:
    return {name: known for name, known in everything(package).items() if not name.startswith(".patchkit")}


def dependents(ids: set[str]) -> set[str]:
    """Return patches with those that cannot stay without them."""
    return ids | {patch.id for patch in PATCHES if ids & set(patch.requires)}


one = st.sampled_from(IDS)
steps = st.lists(
    st.tuples(st.sampled_from(["apply", "apply", "revert"]), st.sets(one, min_size=1, max_size=3))
)


@settings(max_examples=60, deadline=None)
@given(steps=steps)
@example(steps=[("apply", {"g-method"}), ("apply", {"z-last"})])
@example(steps=[("apply", {"g-method"}), ("apply", {"z-last"}), ("revert", {"g-method"})])
@example(steps=[("apply", {"m-twin"}), ("apply", {"a-twin"}), ("revert", {"m-twin"})])
@example(steps=[("apply", {"a-twin", "m-twin"}), ("revert", {"m-twin"})])
@example(steps=[("apply", {"e-import"}), ("apply", {"c-method"}), ("revert", {"e-import"})])
def test_tree_is_what_its_patches_make_at_once_however_they_came_and_went(
    steps: list[tuple[str, set[str]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = open_tree(write_package(Path(folder) / "sglang"))
        for act, ids in steps:
            before = frozenset(recorded(tree))
            if act == "apply":
                api.apply(tree, PATCHES, tuple(ids), only=True)
                assert frozenset(recorded(tree)) == before | {
                    p.id for p in PATCHES.select(tuple(ids), only=True)
                }
            else:
                gone = dependents(ids & before)
                if gone:
                    api.revert(tree, PATCHES, tuple(gone & before))
            assert code(tree.package) == made_at_once(frozenset(recorded(tree)))


def test_patch_that_comes_after_a_person_s_edit_leaves_that_edit(tree: CheckoutTree) -> None:
    api.apply(tree, PATCHES, ("g-method",), only=True)
    edit(tree, MIRROR, b"class Mirror:", b"class Mirror(object):")
    api.apply(tree, PATCHES, ("z-last",), only=True)
    assert b"class Mirror(object):" in (tree.read(MIRROR) or b"")
    api.revert(tree, PATCHES)
    left, wanted = tree.read(MIRROR) or b"", SOURCES[MIRROR].replace(b"Mirror:", b"Mirror(object):")
    assert left.split() == wanted.split()


def test_patch_comes_later_where_contents_of_the_first_were_lost(tree: CheckoutTree) -> None:
    api.apply(tree, PATCHES, ("g-method",), only=True)
    for path in (tree.package / ".patchkit" / "objects").iterdir():
        path.unlink()
    api.apply(tree, PATCHES, ("z-last",), only=True)
    assert recorded(tree) == ("g-method", "z-last")


def test_patch_comes_later_where_the_first_is_not_at_hand(tree: CheckoutTree) -> None:
    api.apply(tree, PATCHES, ("g-method",), only=True)
    api.apply(tree, PatchSet((PATCHES.get("z-last"),), "toys"), ("z-last",), only=True)
    assert recorded(tree) == ("g-method", "z-last")


def test_diff_shows_what_apply_then_writes(tree: CheckoutTree) -> None:
    api.apply(tree, PATCHES, ("g-method",), only=True)
    shown = {change.file: change.after for change in api.diff(tree, PATCHES, ("z-last",)).changes}
    api.apply(tree, PATCHES, ("z-last",))
    assert {file: tree.read(file) for file in shown} == shown


def test_a_patch_that_another_had_made_whole_is_recorded_and_changes_no_file(tree: CheckoutTree) -> None:
    twin = toy("own-twin", attribute(CRLF, "Backend", "needs_host = False"))
    patches = PatchSet((*PATCHES, twin), "toys")
    api.apply(tree, patches, ("m-twin",), only=True)
    assert api.apply(tree, patches, ("own-twin",), only=True).files == ()
    assert recorded(tree) == ("m-twin", "own-twin")
    api.revert(tree, patches, ("m-twin",))
    assert b"own-twin: toy\r\n    needs_host = False" in (tree.read(CRLF) or b"")
