"""Cached results of earlier runs are used while intact, and computed again otherwise."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest
from support.sweeps import swept
from support.toys import MIRROR, add_patch, attribute

from patchkit import api
from patchkit.matrix.memory import Memory
from patchkit.matrix.questions import SOURCE
from patchkit.patchset import load
from patchkit.plan.examinations import Decisions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from patchkit.matrix.answer import Matrix
    from patchkit.tree.tree import CheckoutTree


def surveyed(fork: CheckoutTree) -> Matrix:
    return api.matrix(fork.root, ("HEAD",), load.patches(), jobs=1).matrix


def _with_answers(value: object) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        base = sqlite3.connect(path)
        with base:
            base.execute("update answers set answer = ?", (value,))
        base.close()

    return damage


def _with_names(path: Path) -> None:
    base = sqlite3.connect(path)
    with base:
        base.execute("update answers set name = cast(x'ff' as blob) where task = 'examine'")
    base.close()


def _overwritten(path: Path) -> None:
    path.write_bytes(b"this is no database, and longer than the head of one" * 100)


def _cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def _scribbled(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x5a" * (len(content) - 4096)
    path.write_bytes(content)


DAMAGES = {
    "no text": _with_answers(7),
    "nothing": _with_answers(None),
    "no JSON": _with_answers(b"{"),
    "another kind": _with_answers(b'{"answers": 1}'),
    "too few cells": _with_answers(b'{"answers": [], "answer": {"cells": [], "state": "x"}}'),
    "deep": _with_answers(b"[" * 100_000),
    "names": _with_names,
    "overwritten": _overwritten,
    "cut": _cut,
    "scribbled": _scribbled,
}


@pytest.mark.usefixtures("patch_folder")
@pytest.mark.parametrize("damage", swept(DAMAGES, {"no JSON", "too few cells", "names", "cut"}.__contains__))
def test_a_damaged_memory_is_made_anew(checkout: CheckoutTree, own_cache: Path, damage: str) -> None:
    first = surveyed(checkout)
    (path,) = own_cache.rglob("*.sqlite")
    DAMAGES[damage](path)
    second = surveyed(checkout)
    assert second.rows == first.rows
    assert second.examined == 1
    assert surveyed(checkout).examined == 0


@pytest.mark.usefixtures("patch_folder")
def test_a_memory_that_cannot_be_written_is_done_without(checkout: CheckoutTree, own_cache: Path) -> None:
    (own_cache / "matrix").write_text("in the way")
    assert surveyed(checkout).rows[0].patches


def test_results_are_those_of_their_task_and_their_patches() -> None:
    one, two = Memory("one"), Memory("two")
    one.keep("t", {"a": 1})
    one.keep("u", {"a": 2})
    one.keep("s", {"a": 3}, shared=True)
    assert one.recall("t", int) == {"a": 1}
    assert one.recall("u", int) == {"a": 2}
    assert two.recall("t", int) == {}
    assert two.recall("s", int, shared=True) == {"a": 3}
    one.close()
    two.close()


def test_decisions_of_other_code_do_not_mix() -> None:
    """The answer to another question is no answer, even if it is the same word."""
    decisions = Decisions[str]()
    decisions.add([((SOURCE, "a.py"), ""), ((SOURCE, "b.py"), "x")], "first")
    decisions.add([((SOURCE, "c.py"), ""), ((SOURCE, "d.py"), "y")], "other code's")
    decisions.add([], "nothing was asked")
    assert decisions.question == (SOURCE, "a.py")
    assert set(decisions.after) == {""}
    assert set(decisions.after[""].after) == {"x"}
    assert decisions.result is None


@pytest.mark.usefixtures("patch_folder")
def test_patches_that_require_each_other_in_a_long_row_are_ordered(tmp_path: Path) -> None:
    folder = tmp_path / "row"
    for number in range(1500):
        needed = f'["row-{number + 1}"]' if number < 1499 else "[]"
        add_patch(folder, f"row-{number}", attribute(MIRROR, "Mirror", f"x{number} = 1"), requires=needed)
    patches = load.patches([folder])
    assert [name for name in patches.ids if name.startswith("row-")] == [
        f"row-{number}" for number in reversed(range(1500))
    ]
    chosen = {patch.id for patch in patches.select(["row-0"])}
    assert len([name for name in chosen if name.startswith("row-")]) == 1500
