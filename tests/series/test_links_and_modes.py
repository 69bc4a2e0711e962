"""Links and modes of a change are carried to another tree: into files, commits and patches, or said to be left out."""

from __future__ import annotations

import os
import shutil
from functools import partial
from typing import TYPE_CHECKING

import pytest
from cli.test_port import run
from click.testing import CliRunner
from series.test_given_series import DESK, SHELF, TEST, answer_of, edit, folder_of, repository
from support.faults import killings
from support.toys import everything, git

from patchkit.cli import main
from patchkit.transaction.recover import recover
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

INSIDE = "python/sglang/srt/link.py"
BESIDE = "test/link"
TOOL = "python/sglang/srt/tool.py"
SCRIPT = "scripts/run"
MOVED = "scripts/start"
NAMES = (INSIDE, BESIDE, TOOL, SCRIPT, MOVED, SHELF, TEST, DESK)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    return repository(tmp_path / "theirs")


@pytest.fixture
def fork(theirs: Path, tmp_path: Path) -> Path:
    """A fork whose desk has drifted."""
    root = tmp_path / "fork"
    git(tmp_path, "clone", "-q", str(theirs), root.name)
    for key, value in (("user.name", "A Maintainer"), ("user.email", "maintainer@example.org")):
        git(root, "config", key, value)
    edit(root, (DESK, "    days = 14\n", "    days = 15\n"))
    git(root, "commit", "-qam", "Ours")
    return root


def put(root: Path, name: str, *, target: str = "", text: str = "", program: bool = False) -> None:
    """Write a file or a link in the place of whatever is there."""
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if target:
        path.symlink_to(target)
    else:
        path.write_text(text)
        path.chmod(0o755 if program else 0o644)


def committed(root: Path, message: str) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", message)


def two_changes(root: Path) -> str:
    """Commit links and modes, then change them, and return the range."""
    put(root, INSIDE, target="desk.py")
    put(root, BESIDE, target="run_desk.py")
    put(root, TOOL, text="tool = 1\n", program=True)
    put(root, SCRIPT, text="".join(f"echo {number}\n" for number in range(30)), program=True)
    (root / TEST).chmod(0o755)
    (root / SHELF).chmod(0o755)
    edit(root, (DESK, "        return due\n", "        return due or 1\n"))
    committed(root, "Links and modes")
    put(root, INSIDE, target="shelf.py")
    put(root, BESIDE, text="no link\n")
    (root / TEST).chmod(0o644)
    edit(root, (SHELF, "    return row\n", "    return row or 1\n"))
    git(root, "mv", SCRIPT, MOVED)
    (root / DESK).chmod(0o755)
    committed(root, "Changed again")
    return "HEAD~2..HEAD"


def entries(root: Path, *, named: str = "") -> dict[str, str]:
    """Return mode and blob of each name in a commit, or else in the working tree."""
    if not named:
        git(root, "add", "-A")
    listed = git(root, "ls-tree", "-r", named or git(root, "write-tree").strip()).splitlines()
    found = {name: " ".join(meta.split()[::2]) for meta, name in (line.split("\t") for line in listed)}
    return {name: found.get(name, "") for name in NAMES}


def on_disk(root: Path) -> list[object]:
    """Return what is at each name: a link's target, or a file's content and whether it is executable."""
    paths = [path for name in NAMES if os.path.lexists(path := root / name)]
    return [
        (str(path.relative_to(root)), os.readlink(path))
        if path.is_symlink()
        else (str(path.relative_to(root)), path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in paths
    ]


def by_commits(theirs: Path, fork: Path, words: tuple[object, ...], _new: Path) -> dict[str, str]:
    run("port", *words, "--onto", fork, "--commit")
    assert git(fork, "status", "--porcelain") == ""
    first = entries(fork, named="HEAD^")
    assert first[INSIDE] == entries(theirs, named="HEAD^")[INSIDE]
    assert first[BESIDE] == entries(theirs, named="HEAD^")[BESIDE]
    assert first[TEST].startswith("100755")
    return entries(fork, named="HEAD")


def by_files(_theirs: Path, fork: Path, words: tuple[object, ...], _new: Path) -> dict[str, str]:
    run("port", *words, "--onto", fork)
    return entries(fork)


def by_patches(_theirs: Path, fork: Path, words: tuple[object, ...], new: Path) -> dict[str, str]:
    run("port", *words, "--onto", fork, "-o", new)
    git(fork, "stash", "-q", "-u")
    git(fork, "am", "-q", *map(str, sorted(new.iterdir())))
    return entries(fork, named="HEAD")


def by_patches_for_a_ref(theirs: Path, fork: Path, words: tuple[object, ...], new: Path) -> dict[str, str]:
    git(theirs, "fetch", "-q", str(fork), "main:their-fork")
    run("port", *words, "--onto", "their-fork", "-o", new)
    git(fork, "am", "-q", *map(str, sorted(new.iterdir())))
    return entries(fork, named="HEAD")


@pytest.mark.parametrize("given", ["commits", "a folder", "a folder without its base"])
@pytest.mark.parametrize("way", [by_commits, by_files, by_patches, by_patches_for_a_ref])
def test_links_and_modes_are_carried(
    theirs: Path, fork: Path, tmp_path: Path, given: str, way: Callable[..., dict[str, str]]
) -> None:
    named = two_changes(theirs)
    words: tuple[object, ...] = (named, "--repo", theirs)
    if given != "commits":
        words = (folder_of(theirs, named, tmp_path / "given"), "--repo", theirs)
    if given == "a folder":
        words = (*words, "--from", "v0.5.12")
    made, wanted = way(theirs, fork, words, tmp_path / "new"), entries(theirs, named="HEAD")
    days = (fork / DESK).read_text()
    assert "days = 15" in days
    assert "return due or 1" in days
    assert made.pop(DESK).split()[0] == wanted.pop(DESK).split()[0] == "100755"
    assert made == wanted
    assert bool(os.stat(fork / MOVED).st_mode & 0o100)


def test_a_second_port_changes_nothing_and_writes_the_same_patches(
    theirs: Path, fork: Path, tmp_path: Path
) -> None:
    two_changes(theirs)
    words = ("port", "HEAD^", "--repo", theirs, "--onto", fork)
    run(*words, "-o", tmp_path / "first", "--commit")
    head, before = git(fork, "rev-parse", "HEAD"), everything(fork)
    run(*words, "-o", tmp_path / "again", "--commit")
    assert (git(fork, "rev-parse", "HEAD"), everything(fork)) == (head, before)
    git(fork, "switch", "-q", "--detach", "HEAD^")
    git(fork, "am", "-q", *map(str, (tmp_path / "again").iterdir()))
    assert git(fork, "diff", "main", "--", ".", ":!patchkit.lock") == ""


def test_a_revert_takes_back_contents_and_leaves_links_and_modes(theirs: Path, fork: Path) -> None:
    put(theirs, INSIDE, target="desk.py")
    (theirs / SHELF).chmod(0o755)
    edit(theirs, (DESK, "        return due\n", "        return due or 1\n"))
    committed(theirs, "A link, a mode and a line")
    before = (fork / DESK).read_bytes()
    tree = answer_of("HEAD", "--repo", theirs, "--onto", fork, "--commit")
    clone = fork.with_name("clone")
    git(fork.parent, "clone", "-q", str(fork), clone.name)
    for place in (fork, clone):
        run("revert", place, tree["changes"][0]["id"])
        assert (place / DESK).read_bytes() == before
        assert git(place, "status", "--porcelain", "--", "python").split() == ["M", DESK]


WAYS_OUT = {
    "above": "../../../../victim",
    "absolute": "/etc/passwd",
    "into git's folder": "../../../.git/config",
    "up again": "../srt/../../../../victim",
}


@pytest.mark.parametrize("name", [INSIDE, BESIDE])
@pytest.mark.parametrize("target", WAYS_OUT.values(), ids=WAYS_OUT)
def test_a_link_out_of_the_checkout_is_left_out_and_said(
    theirs: Path, fork: Path, name: str, target: str
) -> None:
    if name == BESIDE:
        target = target.removeprefix("../../")
    put(theirs, name, target=target)
    edit(theirs, (DESK, "        return due\n", "        return due or 1\n"))
    committed(theirs, "A link")
    tree = answer_of("HEAD", "--repo", theirs, "--onto", fork, "--commit", code=1)
    (file,) = tree["changes"][0]["outside"]
    assert file["outcome"] == "conflict"
    assert "it leads out of the tree, to" in file["edits"][0]["reason"]
    assert not os.path.lexists(fork / name)
    assert "Patchkit-Left-Out: " in git(fork, "log", "-1", "--format=%B")
    assert "return due or 1" in (fork / DESK).read_text()


@pytest.mark.parametrize("what", ["a link", "a program"])
def test_nothing_is_written_below_a_folder_of_the_tree_that_is_a_link_out_of_it(
    theirs: Path, fork: Path, tmp_path: Path, what: str
) -> None:
    (tmp_path / "victim").mkdir()
    inner = "python/sglang/srt/inner"
    (fork / inner).symlink_to(tmp_path / "victim")
    committed(fork, "A folder elsewhere")
    put(
        theirs,
        f"{inner}/new.py",
        target="../desk.py" if what == "a link" else "",
        text="x = 1\n",
        program=True,
    )
    committed(theirs, "Below it")
    before = everything(tmp_path)
    for more in ((), ("--commit",)):
        output = run("port", "HEAD", "--repo", theirs, "--onto", fork, *more, code=4).output
        assert "is a link out of the tree" in output
    assert everything(tmp_path) == before


@pytest.mark.parametrize("target", ["", "a\0b", "a\nb", "x" * 5000, ".", "desk.py/../../.git/x"])
def test_an_odd_link_of_a_diff_is_refused_or_made_as_it_is(fork: Path, tmp_path: Path, target: str) -> None:
    lines = target.split("\n")
    (tmp_path / "it.patch").write_text(
        f"diff --git a/{INSIDE} b/{INSIDE}\nnew file mode 120000\nindex 0000000..1234567\n--- /dev/null\n"
        f"+++ b/{INSIDE}\n@@ -0,0 +1,{len(lines)} @@\n"
        + "\n".join(f"+{line}" for line in lines)
        + "\n\\ No newline at end of file\n"
    )
    before = everything(fork)
    words = ["port", tmp_path / "it.patch", "--onto", fork, "-o", tmp_path / "new"]
    done = CliRunner().invoke(main, list(map(str, words)))
    assert done.exit_code in {0, 1, 4}, (done.output, done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    if done.exit_code == 0:
        assert os.readlink(fork / INSIDE) == target
    else:
        assert everything(fork) == before
        assert not os.path.lexists(fork / INSIDE)


IN_THE_WAY = {
    "a folder": lambda path: path.mkdir(),
    "a file": lambda path: path.write_text("ours\n"),
    "another link": lambda path: path.symlink_to("elsewhere"),
}


@pytest.mark.parametrize("name", [INSIDE, BESIDE])
@pytest.mark.parametrize("what", IN_THE_WAY)
def test_a_link_is_left_out_where_the_tree_has_something_else(
    theirs: Path, fork: Path, name: str, what: str
) -> None:
    IN_THE_WAY[what](fork / name)
    put(fork, "kept", text="kept\n")
    committed(fork, "In the way")
    put(theirs, name, target="desk.py")
    committed(theirs, "A link")
    before = everything(fork)
    tree = answer_of("HEAD", "--repo", theirs, "--onto", fork, code=1)
    ((each,),) = (file["edits"] for file in tree["changes"][0]["outside"])
    assert each["reason"] == f"this tree has {what} in its place"
    assert everything(fork) == before


@pytest.mark.parametrize("target", ["within", "out"])
def test_a_file_that_is_a_link_in_the_tree_is_a_conflict(
    theirs: Path, fork: Path, tmp_path: Path, target: str
) -> None:
    other = fork / "python" / "sglang" / "srt" / "other.py" if target == "within" else tmp_path / "other.py"
    shutil.move(fork / SHELF, other)
    (fork / SHELF).symlink_to(os.path.relpath(other, (fork / SHELF).parent))
    shutil.move(fork / TEST, fork / "test" / "other.py")
    (fork / TEST).symlink_to("other.py")
    committed(fork, "Links")
    edit(theirs, (SHELF, "    return row\n", "    return row or 1\n"))
    edit(theirs, (TEST, "lend(1)\n", "lend(2)\n"))
    committed(theirs, "Files")
    before = everything(tmp_path)
    words = ("HEAD", "--repo", theirs, "--onto", fork)
    tree = answer_of(*words, code=3)
    for key in ("files", "outside"):
        (file,) = tree["changes"][0][key]
        assert [each["reason"] for each in file["edits"]] == ["it is a link in this tree"]
    run("port", *words, "--keep-going", "--dry-run", code=1)
    assert everything(tmp_path) == before


@pytest.mark.parametrize(("name", "what"), [(SHELF, "a mode"), (TEST, "a mode"), (TEST, "a line")])
def test_what_a_person_did_already_and_did_not_commit_is_in_no_commit_of_a_port(
    theirs: Path, fork: Path, name: str, what: str
) -> None:
    for root in (theirs, fork):
        if what == "a mode":
            (root / name).chmod(0o755)
        else:
            edit(root, (name, "lend(1)\n", "lend(2)\n"))
    git(theirs, "commit", "-qam", "Done")
    head = git(fork, "rev-parse", "HEAD")
    assert "uncommitted" in run("port", "HEAD", "--repo", theirs, "--onto", fork, "--commit", code=4).output
    assert git(fork, "rev-parse", "HEAD") == head


def test_a_checkout_without_modes_is_said_to_lack_them(theirs: Path, fork: Path) -> None:
    git(fork, "config", "core.fileMode", "false")
    put(theirs, TOOL, text="tool = 1\n", program=True)
    (theirs / SHELF).chmod(0o755)
    committed(theirs, "Modes")
    tree = answer_of("HEAD", "--repo", theirs, "--onto", fork, "--commit", code=1)
    assert sorted(each.partition(": ")[0] for each in tree["changes"][0]["left"]) == [
        "srt/shelf.py",
        "srt/tool.py",
    ]
    assert git(fork, "ls-files", "-s", TOOL).startswith("100644")


def test_a_port_of_links_and_modes_that_is_killed_is_finished_or_taken_back(
    theirs: Path, fork: Path, tmp_path: Path
) -> None:
    two_changes(theirs)
    (theirs / TOOL).chmod(0o644)
    git(theirs, "commit", "-qa", "--amend", "-m", "More")
    put(fork, INSIDE, target="desk.py")
    put(fork, TOOL, text="tool = 1\n", program=True)
    shutil.rmtree(fork / ".git")
    words = ("port", "HEAD", "--repo", theirs, "--onto")
    whole = tmp_path / "whole"
    shutil.copytree(fork, whole, symlinks=True)
    run(*words, whole, code=1)  # The files beside the package are left out.
    states = [on_disk(fork), on_disk(whole)]
    assert states[0] != states[1]
    seen = []
    for number, _ in enumerate(killings(partial(run, *words, fork, code=1), fork), 1):
        recover(open_tree(fork))
        seen.append(states.index(on_disk(fork)))
        assert not list(fork.rglob(".*.patchkit*")), number
    assert seen == sorted(seen)
    assert {*seen} == {0, 1}
