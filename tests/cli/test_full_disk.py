"""On a full disk a command fails with one sentence, and leaves nothing half written."""

from __future__ import annotations

import os
import resource
import tempfile
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.repositories import committing, whole
from support.toys import MIRROR, edit, everything, git

from patchkit.cli import main
from patchkit.plan.resolutions import Resolution
from patchkit.transaction.resolution_store import ResolutionStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")


@pytest.fixture
def fork(checkout: CheckoutTree) -> CheckoutTree:
    return committing(checkout)


@pytest.fixture
def _no_temporary_folder(fork: CheckoutTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python takes a folder for temporary files only where it can write one.

    ``fork`` comes first: the first checkout of a run is made in a temporary folder.
    """
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc"])


@contextmanager
def full() -> Iterator[None]:
    """Let no file take a byte more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("_no_temporary_folder")
@pytest.mark.parametrize("words", [["status"], ["diff"], ["verify"], ["revert"]], ids=lambda words: words[0])
def test_what_needs_no_temporary_folder_works_without(fork: CheckoutTree, words: list[str]) -> None:
    for each in (["apply"], words):
        ran = CliRunner().invoke(main, [*each, str(fork.root)])
        assert ran.exit_code == 0, ran.output


@pytest.mark.usefixtures("_no_temporary_folder")
@pytest.mark.parametrize(
    "words",
    [
        ["apply", "TREE", "--commit"],
        ["rebase", "TREE", "--onto", "other", "--merge"],
        ["export", "TREE", "-o", "OUT"],
        ["test", "t-flag", "--on", "TREE"],
    ],
    ids=" ".join,
)
def test_what_needs_a_temporary_folder_says_so_without(
    fork: CheckoutTree, tmp_path: Path, words: list[str]
) -> None:
    places = {"TREE": str(fork.root), "OUT": str(tmp_path / "out")}
    _diverge(fork)
    before = whole(fork)
    ran = CliRunner().invoke(main, [places.get(word, word) for word in words])
    assert ran.exit_code == 4, ran.output
    assert ran.stderr.startswith("error: ")
    assert "TMPDIR" in ran.stderr
    assert whole(fork) == before
    assert not (tmp_path / "out").exists()


def _diverge(tree: CheckoutTree) -> None:
    git(tree.root, "branch", "other")
    git(tree.root, "commit", "-q", "--allow-empty", "-m", "Mine")
    git(tree.root, "switch", "-q", "other")
    git(tree.root, "commit", "-q", "--allow-empty", "-m", "Theirs")
    git(tree.root, "switch", "-q", "-")


def test_a_draft_that_finds_no_space_is_not_there_in_part(fork: CheckoutTree, tmp_path: Path) -> None:
    edit(fork, MIRROR, b"copies = 0\n", b"copies = 0\n    drafted = 1\n")
    (tmp_path / "a.diff").write_text(git(fork.root, "diff"))
    git(fork.root, "checkout", "-q", ".")
    words = ["new", "drafted", "--from-diff", str(tmp_path / "a.diff"), "--on", str(fork.root), "-o"]
    with full():
        ran = CliRunner().invoke(main, [*words, str(tmp_path / "above" / "drafted")])
    assert ran.exit_code == 4, ran.output
    assert ran.stderr.startswith("error: ")
    assert "nothing was written" in ran.stderr
    assert not (tmp_path / "above").exists()
    assert CliRunner().invoke(main, [*words, str(tmp_path / "above" / "drafted")]).exit_code == 0


def test_a_resolution_that_cannot_be_remembered_leaves_no_piece_of_it(fork: CheckoutTree) -> None:
    with full():
        assert not ResolutionStore(fork).put("name", Resolution("t-flag", "flag", "", "flag = 1"))
    assert not any("resolutions/" in name for name in everything(fork.root / ".git"))


def test_a_result_that_finds_no_space_leaves_the_file_as_it_was(fork: CheckoutTree, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "result").write_text("the last result\n")
    with full():
        ran = CliRunner().invoke(main, ["verify", str(fork.root), "-o", str(folder / "result")])
    assert ran.exit_code == 2, ran.output
    assert ran.stderr.startswith("error: ")
    assert [path.name for path in folder.iterdir()] == ["result"]
    assert (folder / "result").read_text() == "the last result\n"


@pytest.mark.parametrize("kind", ["file", "link", "pipe"])
def test_a_result_replaces_a_file_and_is_written_to_anything_else(
    fork: CheckoutTree, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    path, target = folder / "result", tmp_path / "target"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        target.write_text("the last result\n")
        path.symlink_to(target)
    else:
        path.write_text("the last result\n")
    path.chmod(0o640)
    inode = path.lstat().st_ino
    read: list[str] = []
    reader = Thread(target=lambda: read.append(path.read_text())) if kind == "pipe" else None
    if reader is not None:
        reader.start()
    ran = CliRunner().invoke(main, ["matrix", str(fork.root), "--refs", "HEAD", "-o", str(path)])
    if reader is not None:
        reader.join()
    assert ran.exit_code == 0, ran.output
    text = read[0] if read else path.read_text()
    assert "HEAD" in text
    assert "the last result" not in text
    assert [path.name for path in folder.iterdir()] == ["result"]
    assert path.stat().st_mode & 0o777 == 0o640
    assert (path.lstat().st_ino == inode) is (kind != "file")
