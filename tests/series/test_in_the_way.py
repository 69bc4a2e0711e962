"""A command that commits leaves all as it was where something is at a path that it writes, or a disk is full."""

from __future__ import annotations

import resource
import subprocess
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.repositories import COMMITTING, branched, copied, whole
from support.sweeps import crossed
from support.toys import MIRROR, everything, git

from patchkit import api
from patchkit.cli import main
from patchkit.patchset import load
from patchkit.tree.fork import RECORD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")

NOTES = "notes/new.txt"
PLACES = (f"python/sglang/{MIRROR}", "python/sglang/srt", RECORD, f"{RECORD}/t-flag.toml", "notes", NOTES)


@pytest.fixture(scope="module")
def fork(tmp_path_factory: pytest.TempPathFactory) -> CheckoutTree:
    """A checkout with a change of others on one branch, and a newer release on another; both add a file."""
    return branched(tmp_path_factory.mktemp("in-the-way") / "fork", NOTES)


def obstruct(path: Path, kind: str, outside: Path) -> None:
    """Put a link out of the tree, a folder or a file in a place, with what was there behind it."""
    path.parent.mkdir(exist_ok=True)
    if path.exists():
        path.rename(outside)
    else:
        outside.mkdir()
    if kind == "link":
        path.symlink_to(outside)
    elif kind == "folder":
        path.mkdir()
        (path / "mine").write_text("mine\n")
    else:
        path.write_text("mine\n")


@pytest.mark.parametrize(
    ("name", "place", "kind", "is_committed"),
    crossed(COMMITTING, PLACES, ("link", "folder", "file"), (False, True), one_in=8),
)
def test_nothing_is_written_through_or_over_it(
    fork: CheckoutTree, tmp_path: Path, *, name: str, place: str, kind: str, is_committed: bool
) -> None:
    tree = copied(fork, tmp_path / "fork")
    if name in {"revert", "rebase"}:
        api.commit(tree, load.patches())
    obstruct(tree.root / place, kind, tmp_path / "outside")
    if is_committed:
        git(tree.root, "add", "--all")
        git(tree.root, "commit", "-qm", "In the way", "--allow-empty")
    before, there = whole(tree), everything(tmp_path / "outside")
    ran = CliRunner().invoke(main, [word.format(tree.root) for word in COMMITTING[name]])
    assert ran.exit_code in {0, 1, 3, 4}, ran.output
    assert everything(tmp_path / "outside") == there
    if ran.exit_code > 1:
        assert ran.stderr.startswith("error: ")
        assert whole(tree) == before
    else:
        obstacle = tree.root / place
        assert obstacle.is_symlink() is (kind == "link")
        assert obstacle.is_file() or kind != "file"
        assert obstacle.is_dir() or kind == "file"


def test_a_file_where_a_port_needs_a_folder_is_named_before_anything_is_written(
    fork: CheckoutTree, tmp_path: Path
) -> None:
    tree = copied(fork, tmp_path / "fork")
    (tree.root / "notes").write_text("mine\n")
    before = whole(tree)
    words = ["port", "theirs", "--repo", str(tree.root), "--onto", str(tree.root)]
    ran = CliRunner().invoke(main, words)
    assert (ran.exit_code, ran.stderr.splitlines()[0]) == (4, f"error: {tree.root / 'notes'} is not a folder")
    assert whole(tree) == before


@contextmanager
def full(size: int) -> Iterator[None]:
    """Let no file get longer than so many bytes, also not those of git."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(("name", "size"), crossed(COMMITTING, (500, 800), one_in=2))
def test_a_full_disk_leaves_all_as_it_was(
    fork: CheckoutTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, name: str, size: int
) -> None:
    # A git that a signal ends leaves its locks; on a full disk it gets an error.
    monkeypatch.setattr(subprocess, "run", partial(subprocess.run, restore_signals=False))
    tree = copied(fork, tmp_path / "fork")
    if name in {"revert", "rebase"}:
        api.commit(tree, load.patches())
    before = whole(tree)
    with full(size):
        ran = CliRunner().invoke(main, [word.format(tree.root) for word in COMMITTING[name]])
    assert ran.exit_code == 4, ran.output
    assert ran.stderr.startswith("error: ")
    assert whole(tree) == before
