"""Whatever a tree is like, each command ends soon, in the contract's exit codes and one sentence."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import pkgutil
import resource
import signal
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.odd import ODD, packaged
from support.releases import run
from support.sweeps import crossed
from support.toys import MIRROR, add_patch, attribute

import patchkit
from patchkit.cli import main
from patchkit.patchset import load
from patchkit.tree.tree import open_tree
from patchkit.verify.runtime import runtime_of

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.usefixtures("patch_folder")

DIFF = """\
--- a/python/sglang/srt/managers/mirror.py
+++ b/python/sglang/srt/managers/mirror.py
@@ -1,2 +1,2 @@
 class Mirror:
-    copies = 0
+    copies = 7
"""
COMMANDS = {
    "reading": (
        *(("status", "TREE"), ("status", "TREE", "--json"), ("status", "TREE", "--check"), ("diff", "TREE")),
        *(("apply", "TREE", "--dry-run"), ("audit", "TREE", "--format", "json"), ("doctor", "TREE")),
        *(("verify", "TREE", "--format", "html", "-o", "OUT/page"), ("status", "TREE", "--format", "ledger")),
    ),
    "reading more": (
        *(("export", "TREE", "-o", "OUT/series"), ("rebase", "TREE", "--onto", "HEAD")),
        *(
            ("matrix", "TREE", "--refs", "HEAD"),
            ("matrix", "TREE", "--refs", "HEAD", "--verify", "--jobs", "1"),
        ),
        *(
            ("test", "t-flag", "--on", "TREE"),
            ("test", "PATCH"),
            ("test", "PATCH", "--on", "TREE"),
        ),
        *(("new", "one", "--from-diff", "DIFF", "-o", "OUT/one", "--on", "TREE"),),
        *(("new", "two", "--from-commit", "HEAD", "-o", "OUT/two", "--on", "TREE"),),
    ),
    "writing": (
        *(("resolve", "TREE", "t-flag", "needs_host"), ("apply", "TREE", "--continue"), ("revert", "TREE")),
        *(
            ("apply", "TREE", "--keep-going"),
            ("verify", "TREE", "--format", "sarif"),
            ("status", "TREE", "--format", "ledger"),
        ),
        *(("revert", "TREE"), ("apply", "TREE", "--markers"), ("revert", "TREE")),
        *(("apply", "TREE", "--commit"), ("apply", "TREE", "--runtime", "vendored"), ("revert", "TREE")),
    ),
}
SECONDS = 40
ROOM = 2**30


@pytest.fixture(scope="module", autouse=True)
def _begun(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Run every command, so that the fork of each tree need not import, compile and read what commands share."""
    load.patches()
    for module in pkgutil.walk_packages(patchkit.__path__, "patchkit."):
        # The one is the program itself; the others are not the commands', and import torch.
        if not module.name.startswith(("patchkit.__main__", "patchkit.runtime", "patchkit.backends")):
            importlib.import_module(module.name)
    place = tmp_path_factory.mktemp("begun")
    add_patch(place / "toys", "t-flag", attribute(MIRROR, "Mirror", "needs_host = False"))
    places = given(place, packaged(place))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(load, "BUILT_IN", place / "toys")
        for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
            patched.setenv(name, str(place / name))
        for words in itertools.chain(*COMMANDS.values()):
            wrong_with(words, places)


def given(place: Path, tree: Path) -> dict[str, str]:
    """Return what the words in capitals of `COMMANDS` stand for; write a diff and a patch of one's own there."""
    (place / "diff").write_text(DIFF)
    add_patch(place / "own", "own", attribute(MIRROR, "Mirror", "own = 1"))
    names = {"OUT": "out", "PATCH": "own", "DIFF": "diff"}
    return {"TREE": str(tree), **{word: str(place / name) for word, name in names.items()}}


def wrong_with(words: tuple[str, ...], places: dict[str, str]) -> str:
    """Run a command, and say what of the contract it broke."""
    for name, place in places.items():
        words = tuple(word.replace(name, place, 1) if word.startswith(name) else word for word in words)
    ran = CliRunner().invoke(main, list(words))
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        return "".join(traceback.format_exception(ran.exception)[-3:])
    if ran.exit_code not in range(5):
        return f"exit code {ran.exit_code}"
    if "Traceback" in ran.output:
        return ran.output
    lines = [line for line in ran.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error: ")]
    if ran.exit_code in (2, 4) and (len(errors) != 1 or errors[0].endswith(".")):
        return f"exit code {ran.exit_code}: {ran.stderr!r}"
    return f"{len(ran.stderr)} characters" if len(ran.stderr) > 20_000 else ""


def limited(commands: Iterable[tuple[str, ...]], places: dict[str, str]) -> dict[str, str]:
    """Run commands in a process with little room and time; say what is wrong with each."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        there = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (there + ROOM, there + ROOM))
        signal.alarm(SECONDS)
        found = {}
        for words in commands:
            try:
                fault = wrong_with(words, places)
            except BaseException as error:
                fault = repr(error)
            if fault:
                found[" ".join(words)] = fault
        with os.fdopen(writing, "w") as pipe:
            json.dump(found, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        output = pipe.read()
    _, status = os.waitpid(child, 0)
    return dict(json.loads(output)) if status == 0 else {"all": f"ended by {status}"}


def around(place: Path, tree: Path) -> dict[str, tuple[int, int, int]]:
    """Return what lies beside a tree, whose own repository may be there too."""
    return {
        str(path): (known.st_mode, known.st_size, known.st_mtime_ns)
        for path in place.rglob("*")
        if not path.is_relative_to(tree) and ".git" not in path.parts and not path.is_dir()
        for known in (path.lstat(),)
    }


@pytest.mark.parametrize(("odd", "commands"), crossed(ODD, COMMANDS, one_in=3))
def test_an_odd_tree_is_a_sentence_at_worst_and_what_lies_beside_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str, commands: str
) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    tree = ODD[odd](beside)
    (tmp_path / "passing").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "passing"))
    before = around(beside, tree)
    found = limited(COMMANDS[commands], given(tmp_path, tree))
    assert not found, "\n".join(f"{command}: {fault}" for command, fault in found.items())
    if odd != "a package elsewhere":  # There the package itself lies beside the tree.
        assert around(beside, tree) == before
    assert list((tmp_path / "passing").iterdir()) == []


@pytest.mark.parametrize("odd", [name for name in ODD if name.startswith("a path file")])
def test_a_runtime_is_looked_for_behind_odd_path_files(tmp_path: Path, odd: str) -> None:
    site = ODD[odd](tmp_path)
    (tmp_path / "editable" / "patchkit").mkdir(parents=True)
    (tmp_path / "editable" / "patchkit" / "__init__.py").touch()
    (tmp_path / "editable" / "patchkit" / "runtime.py").write_text("api_1 = 1\n")
    assert not runtime_of(open_tree(site)).present
    (site / "y.pth").write_text("\n../editable\n")
    assert runtime_of(open_tree(site)).present


def test_a_patch_is_tried_on_no_tree_with_a_file_that_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, opened = packaged(tmp_path), os.open

    def denied(path: object, *arguments: int, **named: object) -> int:
        if str(path).endswith("version.py"):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", denied)
    refused = run("test", "t-flag", "--on", site, code=4).stderr
    assert "version.py cannot be read: Permission denied" in refused
