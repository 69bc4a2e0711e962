from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from patchkit import cache
from patchkit.errors import TreeError
from patchkit.patchset import load
from patchkit.plan.build import inspect
from patchkit.plan.cache import statuses
from patchkit.plan.status import State
from patchkit.tree.tree import CheckoutTree, open_tree

if TYPE_CHECKING:
    from pathlib import Path

PATCH = """
schema = 1
id = "flag"
title = "A flag"
why = "To have one."
risk = "None."
verify = "Look."

[edit.flag]
kind = "class-attribute"
why = "there it is"
at = "srt/backend.py::Backend"
code = "flag = True"
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {"__init__.py": "", "srt/__init__.py": "", "srt/backend.py": "class Backend:\n    pass\n"}
    for name, text in files.items():
        path = tmp_path / "fork" / "sglang" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    folder = tmp_path / "patches" / "flag"
    folder.mkdir(parents=True)
    (folder / "patch.toml").write_text(PATCH)
    monkeypatch.setattr(load, "BUILT_IN", tmp_path / "patches")
    return tmp_path / "fork"


def test_what_is_remembered_is_what_an_inspection_says(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patches = load.patches()
    first = statuses(open_tree(root), patches)
    monkeypatch.setattr("patchkit.plan.build.inspect", lambda *_: pytest.fail("inspected a second time"))
    assert statuses(open_tree(root), patches) == first == inspect(open_tree(root), tuple(patches))


def test_a_result_with_a_name_that_is_not_utf_8_leaves_nothing_in_the_cache(root: Path) -> None:
    (root / "sglang" / "srt" / "backend.py").rename(root / "sglang" / "srt" / "\udcff.py")
    patches = load.patches()
    cached = statuses(open_tree(root), patches)
    assert [status.state for status in cached] == [State.PENDING]
    assert statuses(open_tree(root), patches) == cached
    assert not list(cache.folder("status").glob("*"))


@pytest.mark.parametrize("file", ["srt/backend.py", "srt/__init__.py", "srt/moved.py"])
def test_one_more_byte_in_any_file_is_a_new_inspection(root: Path, file: str) -> None:
    patches = load.patches()
    statuses(open_tree(root), patches)
    path = root / "sglang" / file
    path.write_text((path.read_text() if path.exists() else "") + "class Backend:\n    flag = True\n")
    expected = inspect(open_tree(root), tuple(patches))
    assert statuses(open_tree(root), patches) == expected


def test_tree_that_changes_between_two_reads_leaves_no_wrong_answer(root: Path) -> None:
    """A checkout in another terminal: whatever is answered meanwhile, the next answer is that of the bytes."""
    patches = load.patches()
    path = root / "sglang" / "srt" / "backend.py"
    pristine, patched = path.read_bytes(), b"class Backend:\n    # patchkit flag: x\n    flag = True\n"

    @dataclass(frozen=True)
    class Switching(CheckoutTree):
        """Somebody switches to the patched branch as soon as the file was read."""

        def read(self, file: str) -> bytes | None:
            content = super().read(file)
            if file == "srt/backend.py":
                path.write_bytes(patched)
            return content

    there = open_tree(root)
    (during,) = statuses(Switching(there.root, there.package), patches)
    path.write_bytes(pristine)
    (after,) = statuses(open_tree(root), patches)
    assert (during.state, after.state) == (State.PENDING, State.PENDING)


def test_another_patch_set_is_a_new_inspection(root: Path, tmp_path: Path) -> None:
    statuses(open_tree(root), load.patches())
    file = tmp_path / "patches" / "flag" / "patch.toml"
    file.write_text(PATCH.replace("Backend", "Frontend"))
    (status,) = statuses(open_tree(root), load.patches())
    assert "Frontend" in status.reason


def test_an_error_is_not_remembered(root: Path, own_cache: Path) -> None:
    (root / "sglang" / "srt" / "backend.py").write_text("class Backend(:\n")
    for _ in range(2):
        with pytest.raises(TreeError, match="not valid Python"):
            statuses(open_tree(root), load.patches())
    assert not list(own_cache.rglob("*.json"))


def test_a_damaged_entry_is_inspected_anew(root: Path, own_cache: Path) -> None:
    patches = load.patches()
    first = statuses(open_tree(root), patches)
    (kept,) = own_cache.rglob("*.json")
    kept.write_text("{")
    assert statuses(open_tree(root), patches) == first


def test_a_cache_folder_that_cannot_be_written_is_no_error(root: Path, own_cache: Path) -> None:
    (own_cache / "status").write_text("in the way")
    patches = load.patches()
    assert statuses(open_tree(root), patches) == inspect(open_tree(root), tuple(patches))


def test_the_longest_unused_entries_are_forgotten(own_cache: Path) -> None:
    for number in range(40):
        cache.save("area", str(number), number)
    assert len(list((own_cache / "area").iterdir())) < 40
    assert cache.load("area", "39", int) == 39


@pytest.mark.parametrize(
    "poison",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b"[" * 100_000,
        b'{"key": "KEY", "patches": []}',
        b'{"key": "another", "patches": [{"patch": "flag", "state": "applied", "edits": [], "reason": ""}]}',
        b'{"key": "KEY", "patches": [{"patch": "other", "state": "applied", "edits": [], "reason": ""}]}',
        b'{"key": "KEY", "patches": [{"patch": "flag", "state": "fine", "edits": [], "reason": ""}]}',
        b'{"key": "KEY", "patches": [{"patch": "flag", "state": "applied", "edits": [1], "reason": ""}]}',
    ],
)
def test_an_incomplete_or_foreign_entry_is_ignored(root: Path, own_cache: Path, poison: bytes) -> None:
    patches = load.patches()
    first = statuses(open_tree(root), patches)
    (entry,) = (own_cache / "status").iterdir()
    entry.write_bytes(poison.replace(b"KEY", entry.stem.encode()))
    assert statuses(open_tree(root), patches) == first
