"""A stdout that is full, or that lacks characters, costs no traceback and no byte of a document."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.sweeps import swept
from support.toys import MIRROR, add_patch, attribute, git, write_package

import patchkit

if TYPE_CHECKING:
    from typing import IO

REPOSITORY = Path(patchkit.__file__).parents[1]
ODD = "srt/größe.py"
_NUMBER = re.compile(rb"[0-9.]+")
ADDED = b"def added():\n    return undefined_here\n"


def run(
    *words: object, stdout: IO[bytes] | int = subprocess.PIPE, **settings: str
) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **settings}
    command = [sys.executable, "-m", "patchkit", *map(str, words)]
    return subprocess.run(command, env=environment, stdout=stdout, stderr=subprocess.PIPE, check=False)


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    """A repository with a change of a file whose name is not ASCII, and of another one."""
    package = write_package(tmp_path / "förk" / "python" / "sglang")
    git(tmp_path, "init", "-q", "förk")
    git(tmp_path / "förk", "add", ".")
    git(tmp_path / "förk", "commit", "-qm", "As it was")
    git(tmp_path / "förk", "branch", "größe")
    add_patch(tmp_path / "toys", "t-odd", attribute(MIRROR, "Mirror", 'odd = "größe"'))
    (package / ODD).write_bytes(ADDED)
    return tmp_path / "förk"


@pytest.mark.parametrize(
    "words",
    [["status"], ["show"], ["show", "--json"], ["--help"], ["diff", "--help"], ["--version"]],
    ids=" ".join,
)
def test_a_full_stdout_is_one_sentence(fork: Path, words: list[str]) -> None:
    words = [*words, str(fork)] if words == ["status"] else words
    with Path("/dev/full").open("wb") as full:
        done = run(*words, stdout=full)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines()[0].startswith("error: cannot write to stdout: No space")
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


def test_what_a_command_wrote_to_the_tree_stays_if_stdout_is_full(fork: Path, tmp_path: Path) -> None:
    (tmp_path / "change.diff").write_text(
        f"--- a/python/sglang/{MIRROR}\n+++ b/python/sglang/{MIRROR}\n@@ -2 +2 @@\n-    copies = 0\n+    copies = 1\n"
    )
    words = ("port", tmp_path / "change.diff", "--from", fork, "--onto", fork)
    with Path("/dev/full").open("wb") as full:
        done = run(*words, stdout=full)
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: cannot write to stdout")
    assert b"copies = 1" in (fork / "python" / "sglang" / MIRROR).read_bytes()


def test_a_reader_that_went_away_is_no_error(fork: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as gone:
        done = run("show", stdout=gone)
    assert done.stderr == b""


DOCUMENTS = (
    ["verify", "--format", "html"],
    ["audit", "--format", "sarif"],
    *(["matrix", "--refs", "größe", "--format", style] for style in ("html", "csv")),
    *(["status", "--format", "ledger"], ["diff", "t-odd", "--patches", "TOYS"]),
)


@pytest.mark.parametrize("words", swept(DOCUMENTS, DOCUMENTS[::5].__contains__), ids=" ".join)
def test_a_document_is_the_same_in_every_encoding_of_stdout(fork: Path, words: list[str]) -> None:
    command, *options = [str(fork.parent / "toys") if word == "TOYS" else word for word in words]
    plain = run(command, fork, *options, PYTHONIOENCODING="utf-8")
    assert b"Traceback" not in plain.stderr
    for encoding in ("ascii", "latin1"):
        done = run(command, fork, *options, PYTHONIOENCODING=encoding)
        assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)
        # A page states how long each check took.
        assert _NUMBER.sub(b"", done.stdout) == _NUMBER.sub(b"", plain.stdout)


def test_a_name_that_stdout_cannot_show_is_written_out(fork: Path) -> None:
    done = run("verify", fork, PYTHONIOENCODING="ascii")
    assert b"Traceback" not in done.stderr
    assert done.stdout.isascii()
