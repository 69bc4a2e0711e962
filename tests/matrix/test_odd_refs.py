"""An unusual ref affects only its own cells."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.hostile import listed, tree_object
from support.processes import ends, require_list, running
from support.toys import MIRROR, add_patch, attribute, git

from patchkit import api
from patchkit.cli import main
from patchkit.matrix.failure import Failure
from patchkit.matrix.tasks import VERIFY
from patchkit.matrix.workers import spread
from patchkit.patchset import load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from support.hostile import Entries

    from patchkit.matrix.answer import Matrix
    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")

NESTED, WIDE, HIGH = 3000, 10, 12


def committed(root: Path, folder: str, tree: str) -> str:
    """Commit HEAD's tree with another object in the place of one of its folders."""
    while folder:
        folder, _, name = folder.rpartition("/")
        above = listed(root, f"HEAD:{folder}" if folder else "HEAD^{tree}")
        tree = tree_object(root, [each for each in above if each[1] != name] + [("40000", name, tree)])
    return git(root, "commit-tree", tree, "-p", "HEAD", "-m", "odd").strip()


def below_serving(root: Path, *more: tuple[str, str, str]) -> str:
    return committed(
        root, "python/sglang/srt", tree_object(root, [*listed(root, "HEAD:python/sglang/srt"), *more])
    )


def defining(root: Path) -> tuple[str, str, str]:
    """An entry with the class that the toy patches look for where it has moved to."""
    return ("100644", "moved.py", git(root, "rev-parse", f"HEAD:python/sglang/{MIRROR}").strip())


def nested(root: Path) -> str:
    tree = tree_object(root, [defining(root)])
    for _ in range(NESTED):
        tree = tree_object(root, [("40000", "deep", tree)])
    return below_serving(root, ("40000", "deep", tree))


def bomb(root: Path) -> str:
    entries: Entries = [defining(root)]
    for _ in range(HIGH):
        tree = tree_object(root, entries)
        entries = [("40000", f"d{number}", tree) for number in range(WIDE)]
    return below_serving(root, *entries)


def truncated(root: Path) -> str:
    whole = subprocess.run(
        ["git", "-C", str(root), "cat-file", "tree", "HEAD:python/sglang/srt"],
        capture_output=True,
        check=True,
    ).stdout
    words = ["git", "-C", str(root), "hash-object", "-t", "tree", "-w", "--stdin", "--literally"]
    cut = subprocess.run(words, input=whole[:-7] + b"1", capture_output=True, check=True).stdout.decode()
    return committed(root, "python/sglang/srt", cut.strip())


def damaged(root: Path) -> str:
    """A commit whose file is in the store and cannot be read."""
    (root / "new.py").write_text("class Mirror:\n    copies = 9\n")
    blob = git(root, "hash-object", "-w", "new.py").strip()
    (root / "new.py").unlink()
    path = root / ".git" / "objects" / blob[:2] / blob[2:]
    path.chmod(0o644)
    path.write_bytes(b"no object")
    others = [each for each in listed(root, "HEAD:python/sglang/srt/managers") if each[1] != "mirror.py"]
    return committed(
        root, "python/sglang/srt/managers", tree_object(root, [*others, ("100644", "mirror.py", blob)])
    )


def missing(root: Path) -> str:
    """A commit that is not in the store."""
    return "1" * 40


ODD = {"nested": nested, "bomb": bomb, "truncated": truncated, "damaged": damaged, "missing": missing}


def point(root: Path, branch: str, commit: str) -> None:
    """Create a branch, also of a commit that git does not have."""
    path = root / ".git" / "refs" / "heads" / branch
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{commit}\n")


def surveyed(fork: CheckoutTree, *, verify: bool = False, jobs: int = 1) -> Matrix:
    tasks = [VERIFY] if verify else []
    return api.matrix(fork.root, ("refs/heads/**",), load.patches(), tasks=tasks, jobs=jobs).matrix


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
@pytest.mark.parametrize("verify", [False, True], ids=["read", "verified"])
def test_an_odd_ref_is_an_error_in_its_own_cells(
    checkout: CheckoutTree, make: Callable[[Path], str], verify: bool
) -> None:
    root = checkout.root
    point(root, "a/odd", make(root))
    git(root, "branch", "b/honest")
    # The file has moved, so that the folders are searched for the class.
    (checkout.package / MIRROR).write_text("x = 1\n")
    git(root, "commit", "-qam", "moved")
    git(root, "branch", "c/moved")
    point(root, "d/odd-and-moved", make(root))
    for _ in range(2):
        rows = {row.ref.removeprefix("refs/heads/"): row for row in surveyed(checkout, verify=verify).rows}
        for name in ("a/odd", "d/odd-and-moved"):
            assert rows[name].error.endswith("."), rows[name]
            assert not rows[name].patches
        for name in ("b/honest", "c/moved"):
            assert rows[name].patches, rows[name].error
            assert not rows[name].error


@pytest.mark.parametrize("names", [("a\u2028b", "a\x85b"), ("l\udcff", "l\udcfe")], ids=["lines", "bytes"])
def test_each_odd_name_of_a_branch_is_a_row(checkout: CheckoutTree, names: tuple[str, ...]) -> None:
    for name in names:
        git(checkout.root, "branch", name)
    rows = {row.ref.removeprefix("refs/heads/") for row in surveyed(checkout).rows}
    assert rows > set(names)


def test_a_file_name_that_is_not_utf_8_affects_no_other_ref(checkout: CheckoutTree) -> None:
    git(checkout.root, "branch", "a/plain")
    git(
        checkout.root,
        "mv",
        f"python/sglang/{MIRROR}",
        f"python/sglang/{MIRROR}".replace("mirror", "mirr\udcff"),
    )
    git(checkout.root, "commit", "-qm", "moved")
    git(checkout.root, "branch", "b/odd")
    for _ in range(2):
        rows = {row.ref.removeprefix("refs/heads/"): row for row in surveyed(checkout).rows}
        assert all(rows[name].patches and not rows[name].error for name in ("a/plain", "b/odd"))
    for words in (["status"], ["status", "--format", "ledger"], ["status", "--json"], ["apply"], ["revert"]):
        done = CliRunner().invoke(main, [words[0], str(checkout.root), *words[1:]])
        assert not isinstance(done.exception, Exception), (words, done.exception)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])
def test_workers_end_with_the_process_that_started_them(
    checkout: CheckoutTree, tmp_path: Path, end: signal.Signals
) -> None:
    require_list()
    git(checkout.root, "branch", "other")
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, time\n"
        "from pathlib import Path\n"
        "from patchkit.matrix.tasks import Task\n"
        "from patchkit import api\n"
        "from patchkit.patchset import load\n"
        "def wait(tree, patches):\n"
        "    with open(sys.argv[2], 'a') as file:\n"
        "        file.write('x')\n"
        "    time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    task = Task('wait', 'waiting', str, wait, by_package=True)\n"
        "    api.matrix(Path(sys.argv[1]), ['HEAD', 'HEAD~1'], load.patches(), tasks=[task], jobs=2)\n"
    )
    (checkout.package / "more.py").write_text("")
    git(checkout.root, "add", "-A")
    git(checkout.root, "commit", "-qm", "more")
    begun = tmp_path / "begun"
    process = subprocess.Popen(
        [sys.executable, str(program), str(checkout.root), str(begun)], start_new_session=True
    )
    try:
        while not begun.exists() or len(begun.read_text()) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(end)
        process.wait()
        assert ends(process.pid)
    finally:
        if running(process.pid):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])
def test_a_worker_that_is_ended_costs_only_the_ref_that_it_worked_on(end: signal.Signals) -> None:
    def work(commit: str, new_results: Sequence[Any]) -> str:
        assert not new_results
        if commit == "odd":
            os.kill(os.getpid(), end)
        return commit

    results = dict(spread(work, [(name, name) for name in ("first", "odd", "last")], jobs=1))
    assert isinstance(results.pop("odd"), Failure)
    assert results == {"first": "first", "last": "last"}


class Ending:
    """A result whose worker is terminated while it sends it back."""

    def __reduce__(self) -> str:
        raise SystemExit(1)


def test_a_worker_that_is_ended_while_it_sends_a_result_costs_only_that_ref() -> None:
    def work(commit: str, new_results: Sequence[Any]) -> object:
        assert not new_results
        return Ending() if commit == "odd" else commit

    results = dict(spread(work, [(name, name) for name in ("first", "odd", "last")], jobs=1))
    assert isinstance(results.pop("odd"), Failure)
    assert results == {"first": "first", "last": "last"}


def test_what_names_a_state_depends_on_no_hash_seed(checkout: CheckoutTree, patch_folder: Path) -> None:
    names = ", ".join(f"name_{number}" for number in range(8))
    for number in range(8):
        home = checkout.package / f"srt/managers/home_{number}.py"
        home.write_text(f"def name_{number}():\n    pass\n")
    git(checkout.root, "add", "-A")
    git(checkout.root, "commit", "-qm", "homes")
    edit = attribute(MIRROR, "Mirror", "extra = (" + ", ".join(f"name_{n}" for n in range(8)) + ",)")
    add_patch(
        patch_folder, "t-imports", edit, imports=json.dumps([f"from sglang.srt.managers import {names}"])
    )
    many = [attribute(f"srt/managers/home_{n}.py", "Home", f"extra_{n} = 1") for n in range(8)]
    add_patch(patch_folder, "t-many", *many, upstream_when=json.dumps([f"{MIRROR}::Mirror"]))
    states = set()
    for seed in ("1", "2", "3", "4"):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "patchkit",
                "matrix",
                str(checkout.root),
                "--refs",
                "HEAD",
                "--json",
                "--patches",
                str(patch_folder),
            ],
            env=os.environ | {"PYTHONHASHSEED": seed, "XDG_CACHE_HOME": str(patch_folder.parent / seed)},
            capture_output=True,
            check=True,
        )
        (row,) = json.loads(done.stdout)["rows"]
        states.add(row["state"])
    assert len(states) == 1
