"""A checkout that is not whole, or whose repository git refuses, is used by no command, and nothing is written."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.releases import answer, run, states_in
from support.repositories import committing
from support.toys import ABRUPT, CRLF, MIRROR, SOURCES, checked_in, edit, everything, git

from patchkit.errors import TreeError
from patchkit.tree.objects import GitRepository

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")

COMMANDS = [
    *(["status", "TREE"], ["status", "TREE", "--format", "ledger"], ["diff", "TREE"], ["audit", "TREE"]),
    *(["apply", "TREE"], ["apply", "TREE", "--dry-run"], ["apply", "TREE", "--commit"], ["verify", "TREE"]),
    *(["apply", "TREE", "--allow-dirty"], ["apply", "TREE", "--continue"], ["apply", "TREE", "--abort"]),
    *(["revert", "TREE"], ["doctor", "TREE"], ["resolve", "TREE", "t-flag", "needs_host"]),
    *(["rebase", "TREE", "--onto", "HEAD"], ["rebase", "TREE", "--onto", "HEAD", "--merge"]),
    *(["export", "TREE", "-o", "OUT"], ["test", "t-flag", "--on", "TREE"]),
    ["port", "DIFF", "--from", "TREE", "--onto", "TREE"],
    ["new", "t-new", "--from-diff", "DIFF", "--on", "TREE", "-o", "OUT"],
]
EXCEPT_MIRROR = ("/*", f"!/python/sglang/{MIRROR}")


def refusal(checkout: CheckoutTree, command: list[str], place: Path | None = None) -> str:
    """Return what a command that exits 4 prints on stderr; assert that it prints and writes nothing else."""
    out = checkout.root.parent / "out"
    diff = checkout.root.parent / "change.diff"
    diff.write_text(
        f"--- a/python/sglang/{MIRROR}\n+++ b/python/sglang/{MIRROR}\n@@ -8 +8 @@\n-depth = 1\n+depth = 2\n"
    )
    before = everything(checkout.root)
    named = {"TREE": str(place or checkout.root), "OUT": str(out), "DIFF": str(diff)}
    ran = run(*(named.get(word, word) for word in command), code=4)
    assert everything(checkout.root) == before
    assert not out.exists()
    assert ran.stdout == ""
    return ran.stderr


# ---- files that are deleted, and that git has ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "gone", "count"), [([MIRROR], MIRROR, "1 file"), ([MIRROR, CRLF], "srt/managers", "2 files")]
)
def test_what_brings_back_deleted_files_is_named(
    checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch, files: list[str], gone: str, count: str
) -> None:
    for file in files:
        (checkout.package / file).unlink()
    shutil.rmtree(checkout.package / gone, ignore_errors=True)
    monkeypatch.chdir(checkout.root)
    others = f" python/sglang/{CRLF}" if CRLF in files else ""
    command = f"git restore{others} python/sglang/{gone} brings back"
    for words, code in ((["status"], 0), (["apply", "t-flag"], 3), (["apply"], 0)):
        said = " ".join(run(*words, code=code).stdout.split())
        assert f"Git has {count} that these patches change and the tree does not: {command}" in said
    git(checkout.root, *shlex.split(command.removeprefix("git ").removesuffix(" brings back")))
    assert "Git has" not in run("status").output


@pytest.mark.parametrize("gone", ["python/sglang/__init__.py", "python/sglang/srt", "python"])
def test_a_package_that_was_deleted_is_named_with_what_restores_it(checkout: CheckoutTree, gone: str) -> None:
    place = checkout.root / gone
    place.unlink() if place.is_file() else shutil.rmtree(place)
    said = refusal(checkout, ["apply", "TREE"])
    command = f"git -C {checkout.root} restore {place}"
    assert f"--> {place}\nhelp: run {command}, then try again" in said
    git(checkout.root, "restore", str(place))
    run("apply", checkout.root)


# ---- files that git does not check out -------------------------------------------------------------------------------


def skip(checkout: CheckoutTree, *files: str) -> None:
    """Mark files as skipped and remove them."""
    for file in files:
        git(checkout.package, "update-index", "--skip-worktree", file)
        (checkout.package / file).unlink()


def documented(checkout: CheckoutTree) -> None:
    """Add a folder beside the package, which a sparse checkout can select alone."""
    (checkout.root / "docs").mkdir()
    (checkout.root / "docs" / "page.md").write_text("page\n")
    git(checkout.root, "add", ".")
    git(checkout.root, "commit", "-qm", "Pages")


def narrow(checkout: CheckoutTree, how: str) -> None:
    """Leave sources out of the working tree in one of the ways that git has."""
    documented(checkout)
    ways = {
        "cone": ("set", "--cone", "docs"),
        "sparse index": ("set", "--cone", "--sparse-index", "docs"),
        "part of the package": ("set", "--cone", "python/sglang/srt/managers"),
        "patterns": ("set", "--no-cone", *EXCEPT_MIRROR),
    }
    if how in ways:
        git(checkout.root, "sparse-checkout", *ways[how])
    else:
        skip(checkout, MIRROR)


NARROW = ["cone", "sparse index", "part of the package", "patterns", "by hand"]


@pytest.mark.parametrize("how", NARROW)
def test_sources_that_git_does_not_check_out_are_named_with_the_command_that_does(
    checkout: CheckoutTree, how: str
) -> None:
    narrow(checkout, how)
    error = refusal(checkout, ["apply", "TREE"])
    assert re.search(
        r"git does not check out \d+ of the tree's files\n  --> .*/python/sglang/.*\.py\n", error
    )
    (command,) = re.findall(r"help: run (git .*), then try again\n", error)
    ending = {"by hand": "disable", "patterns": "add '/python/sglang/**'"}.get(how, "add python/sglang")
    assert command == f"git -C {checkout.root} sparse-checkout {ending}"
    subprocess.run(shlex.split(command), check=True, capture_output=True)
    assert set(states_in(answer("apply", checkout.root)).values()) == {"applied"}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("how", ["cone", "patterns"])
def test_no_command_takes_a_part_of_the_sources_for_all_of_them(
    checkout: CheckoutTree, command: list[str], how: str
) -> None:
    narrow(checkout, how)
    assert "git does not check out" in refusal(checkout, command)


@pytest.mark.parametrize("where", ["docs", ".", "python/sglang"])
def test_a_folder_of_a_sparse_checkout_is_no_folder_without_a_tree(
    checkout: CheckoutTree, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow(checkout, "cone")
    (checkout.root / where).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(checkout.root / where)
    assert "sparse-checkout add python/sglang" in run("status", code=4).stderr
    assert "sparse-checkout add python/sglang" in run("status", checkout.root, code=4).stderr


def test_a_configuration_that_git_does_not_check_out_is_missed(checkout: CheckoutTree) -> None:
    (checkout.root / "patchkit.toml").write_text('left_out = ["t-guard"]\n')
    git(checkout.root, "add", ".")
    git(checkout.root, "commit", "-qm", "Configuration")
    git(checkout.root, "sparse-checkout", "set", "--no-cone", "/python")
    error = refusal(checkout, ["status", "TREE"])
    assert f"--> {checkout.root}/patchkit.toml" in error
    assert "sparse-checkout add /patchkit.toml" in error


def test_files_outside_the_package_need_not_be_checked_out(checkout: CheckoutTree) -> None:
    documented(checkout)
    (checkout.package / "notes.txt").write_text("notes\n")
    (checkout.root / "tool").mkdir()
    (checkout.root / "tool" / "pyproject.toml").write_text("")
    git(checkout.root, "add", ".")
    git(checkout.root, "commit", "-qm", "Notes")
    git(checkout.root, "sparse-checkout", "set", "--no-cone", "/python", "!notes.txt")
    assert not (checkout.root / "docs").exists()
    assert not (checkout.package / "notes.txt").exists()
    assert set(states_in(answer("apply", checkout.root)).values()) == {"applied"}


MARKS = ["--assume-unchanged", "--skip-worktree"]


@pytest.mark.parametrize("marks", [MARKS[:1], MARKS[1:], MARKS], ids=" ".join)
def test_a_marked_file_that_is_there_is_judged_by_its_content(
    checkout: CheckoutTree, marks: list[str]
) -> None:
    committing(checkout)
    for mark in marks:
        git(checkout.package, "update-index", mark, MIRROR)
    assert set(states_in(answer("status", checkout.root)).values()) == {"pending"}
    edit(checkout, MIRROR, b"depth = 1", b"depth = 7")
    os.utime(checkout.package / MIRROR, (1, 1))  # Git compares sizes, and times in seconds.
    for option in ((), ("--commit",)):
        error = run("apply", checkout.root, *option, code=4).stderr
        assert f"error: uncommitted changes\n  --> {MIRROR}\n" in error
        (command,) = re.findall(
            r"help: (git .* update-index .*) lets git show them; commit or stash them", error
        )
    assert git(checkout.root, "status", "--porcelain") == ""
    subprocess.run(command, check=True, shell=True)
    assert git(checkout.root, "status", "--porcelain") == f" M python/sglang/{MIRROR}\n"


def test_a_worktree_of_a_sparse_checkout_is_judged_by_its_own_index(
    checkout: CheckoutTree, tmp_path: Path
) -> None:
    documented(checkout)
    git(checkout.root, "worktree", "add", "-q", str(tmp_path / "other"))
    git(checkout.root, "sparse-checkout", "set", "docs")
    assert "git does not check out" in refusal(checkout, ["status", "TREE"])
    assert set(states_in(answer("status", tmp_path / "other")).values()) == {"pending"}


@pytest.mark.parametrize("unborn", [False, True])
def test_a_folder_of_any_name_is_read(tmp_path: Path, unborn: bool) -> None:
    root = tmp_path / "odd\n name'"
    tree = checked_in(root)
    if unborn:
        shutil.rmtree(root / ".git")
        git(root, "init", "-q")
    assert set(states_in(answer("status", tree.root)).values()) == {"pending"}


# ---- repositories that git refuses -----------------------------------------------------------------------------------


def gone(checkout: CheckoutTree) -> str:
    shutil.rmtree(checkout.root / ".git")
    (checkout.root / ".git").write_text("gitdir: /nowhere/.git/worktrees/fork\n")
    return "fatal: not a git repository: /nowhere/.git/worktrees/fork"


def garbled(checkout: CheckoutTree) -> str:
    (checkout.root / ".git" / "config").write_text("[core\n")
    return "fatal: bad config line 1 in file .git/config"


def newer(checkout: CheckoutTree) -> str:
    git(checkout.root, "config", "core.repositoryFormatVersion", "9")
    return "Expected git repo version <= 1, found 9"


def extended(checkout: CheckoutTree) -> str:
    git(checkout.root, "config", "core.repositoryFormatVersion", "1")
    git(checkout.root, "config", "extensions.unheardOf", "true")
    return "fatal: unknown repository extension found:"


def headless(checkout: CheckoutTree) -> str:
    (checkout.root / ".git" / "HEAD").unlink()
    return "fatal: not a git repository (or any "


def junk_branch(checkout: CheckoutTree) -> str:
    (branch,) = (checkout.root / ".git" / "refs" / "heads").iterdir()
    branch.write_text("junk\n")
    return "fatal: No such ref: HEAD"


def junk_index(checkout: CheckoutTree) -> str:
    (checkout.root / ".git" / "index").write_bytes(b"junk" * 30)
    return "error: bad signature 0x"


def detached_nowhere(checkout: CheckoutTree) -> str:
    (checkout.root / ".git" / "HEAD").write_text(f"{'1' * 40}\n")
    return "the commit of HEAD cannot be read"


def without_a_folder(checkout: CheckoutTree) -> str:
    tree = git(checkout.root, "rev-parse", "HEAD:python").strip()
    (checkout.root / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    return f"{tree}"


REFUSED = [gone, garbled, newer, extended, headless, junk_branch, junk_index, detached_nowhere]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("harm", [gone, headless, junk_branch])
def test_a_repository_that_git_refuses_is_refused_with_its_words_by_every_command(
    checkout: CheckoutTree, command: list[str], harm: Callable[[CheckoutTree], str]
) -> None:
    run("apply", checkout.root)
    reason = harm(checkout)
    error = refusal(checkout, command)
    assert reason in error
    assert re.match(
        rf"error: git cannot read the repository in {checkout.root}[a-z/]* \(.*\)\nhelp: .* git -C", error
    )


@pytest.mark.parametrize(
    "command", [["status", "TREE"], ["verify", "TREE"], ["revert", "TREE"]], ids=" ".join
)
@pytest.mark.parametrize("harm", REFUSED)
def test_the_first_line_of_git_says_why_it_refuses(
    checkout: CheckoutTree, command: list[str], harm: Callable[[CheckoutTree], str]
) -> None:
    run("apply", checkout.root)
    assert harm(checkout) in refusal(checkout, command)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_repository_of_another_user_is_refused_with_the_command_that_git_names(
    checkout: CheckoutTree, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("apply", checkout.root)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    error = refusal(checkout, command)
    assert "fatal: detected dubious ownership in repository" in error
    assert f"help: if you trust it, run git config --global --add safe.directory {checkout.root}\n" in error


@pytest.mark.parametrize(
    "command", [["status", "TREE"], ["verify", "TREE"], ["revert", "TREE"]], ids=" ".join
)
def test_a_repository_that_git_cannot_read_in_part_is_not_one_without_history(
    checkout: CheckoutTree, command: list[str]
) -> None:
    run("apply", checkout.root)
    git(checkout.root, "commit", "-qam", "Patched")
    shutil.rmtree(checkout.package / ".patchkit")
    missing = without_a_folder(checkout)
    if command[0] == "status":  # It reads the code alone.
        assert set(states_in(answer("status", checkout.root)).values()) == {"applied"}
    else:
        assert missing in refusal(checkout, command)


def test_what_a_refused_repository_configures_is_not_taken_for_nothing(
    checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout.root)
    assert run("show").stdout
    gone(checkout)
    assert "git cannot read the repository" in run("show", code=4).stderr


@pytest.mark.parametrize("bare", [False, True])
def test_commands_that_read_git_s_objects_alone_refuse_it_too(
    checkout: CheckoutTree, tmp_path: Path, bare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "bare" if bare else checkout.root
    git(tmp_path, "clone", "-q", "--bare", str(checkout.root), "bare")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert "dubious ownership" in run("matrix", place, "--refs", "HEAD", code=4).stderr
    assert "dubious ownership" in run("port", "HEAD", "--repo", place, "--onto", "HEAD", code=4).stderr
    with pytest.raises(TreeError, match="dubious ownership"):
        GitRepository(place)


def test_a_git_that_is_missing_is_named_by_every_command(
    checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(checkout.root))
    for command in COMMANDS:
        assert "install git" in refusal(checkout, command)


def test_a_package_outside_a_repository_needs_no_git(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tree.root))
    assert set(states_in(answer("apply", tree.root)).values()) == {"applied"}
    run("revert", tree.root)
    assert {file: (tree.package / file).read_bytes() for file in (MIRROR, CRLF, ABRUPT)} == {
        file: SOURCES[file] for file in (MIRROR, CRLF, ABRUPT)
    }
