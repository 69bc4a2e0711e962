"""TREE is searched from the current folder upward, as git searches for its repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.releases import answer, run, states_in
from support.toys import MIRROR, add_patch, attribute, everything, git, write_package

from patchkit.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")


@pytest.fixture
def below(checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, deep in the package of a checkout."""
    folder = checkout.package / "srt" / "managers"
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("named", [(), (".",), ("./",)])
@pytest.mark.parametrize(
    "words",
    [
        *(("status",), ("diff",), ("apply", "--dry-run"), ("revert",), ("verify",), ("audit",), ("doctor",)),
        *(("apply", "--continue"), ("rebase", "--onto", "HEAD"), ("status", "--format", "ledger")),
    ],
    ids=lambda words: " ".join(words)[:30],
)
def test_each_command_takes_the_tree_that_holds_the_current_folder_and_says_which(
    checkout: CheckoutTree, below: Path, words: tuple[str, ...], named: tuple[str, ...]
) -> None:
    (checkout.package / "srt" / "server_args.py").write_text("class ServerArgs:\n    tp_size: int = 1\n")
    git(checkout.root, "add", ".")
    git(checkout.root, "commit", "-qm", "Server arguments")
    ran = CliRunner().invoke(main, [words[0], *named, *words[1:]])
    assert ran.exit_code in (0, 1), ran.output
    assert ran.stderr.splitlines() == [f"note: using the sglang tree in {checkout.root}"]


def test_matrix_export_new_and_test_take_it_too(checkout: CheckoutTree, below: Path, tmp_path: Path) -> None:
    (row,) = answer("matrix", ".", "--refs", "HEAD")["rows"]
    assert {cell["state"] for cell in row["patches"]} == {"pending"}
    git(checkout.root, "config", "user.name", "A Maintainer")
    git(checkout.root, "config", "user.email", "maintainer@example.com")
    run("export", "-o", tmp_path / "series")
    assert len(list((tmp_path / "series").iterdir())) == 3
    (trial,) = answer("test", "t-flag", "--on", ".")
    assert (trial["tree"], trial["problems"]) == (str(checkout.root), [])
    own = add_patch(tmp_path / "own", "t-own", attribute(MIRROR, "Mirror", "own = 1")).parent
    assert answer("test", own, "--on", ".")[0]["tree"] == str(checkout.root)


@pytest.mark.parametrize("onto", [(), ("--onto", ".")])
def test_port_takes_it_too(checkout: CheckoutTree, below: Path, onto: tuple[str, ...]) -> None:
    (checkout.package / MIRROR).write_text("depth = 2\n")
    git(checkout.root, "commit", "-qam", "Change")
    ran = run("port", "HEAD", *onto, "--dry-run")
    assert f"note: using the sglang tree in {checkout.root}" in ran.stderr


@pytest.mark.parametrize("place", [".", "python", "python/sglang"])
def test_a_tree_in_the_current_folder_is_used_without_a_note(
    checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(checkout.root / place)
    assert run("status").stderr == ""
    assert answer("test", "t-flag", "--on", ".")[0]["tree"] == "."


def test_any_folder_of_a_repository_has_its_tree(
    checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout.root / "docs" / "deep").mkdir(parents=True)
    monkeypatch.chdir(checkout.root / "docs" / "deep")
    assert answer("status")["tree"]["root"] == str(checkout.root)
    assert states_in(answer("apply", "t-guard")) == {"t-guard": "applied"}


def test_next_commands_are_right_where_they_are_read(below: Path) -> None:
    assert "patchkit apply applies the pending patches" in run("status").stdout


def test_a_package_that_lies_beside_the_current_folder_is_not_taken(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tree.root / "torch" / "nn"
    other.mkdir(parents=True)
    before = everything(tree.root)
    monkeypatch.chdir(other)
    output = run("apply", code=4).stderr
    assert f"{other} is not in an sglang tree" in output
    assert "name a TREE" in output
    assert everything(tree.root) == before


def test_an_installed_package_is_found_from_inside(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree.package / "srt")
    assert answer("status")["tree"]["package"] == str(tree.package)


def test_another_repository_inside_a_checkout_is_a_limit(
    checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout.root / "third" / "src").mkdir(parents=True)
    git(checkout.root, "init", "-q", "third")
    monkeypatch.chdir(checkout.root / "third" / "src")
    assert "is not in an sglang tree" in run("status", code=4).stderr


def test_a_linked_worktree_is_its_own_tree(
    checkout: CheckoutTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(checkout.root, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    monkeypatch.chdir(tmp_path / "linked" / "python" / "sglang" / "srt")
    assert answer("status")["tree"]["root"] == str(tmp_path / "linked")


def test_gits_own_folder_is_no_place_to_look_from(
    checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout.root / ".git" / "refs")
    assert "is not in an sglang tree" in run("status", code=4).stderr
    monkeypatch.chdir(checkout.root / ".git")
    assert "bare repository" in run("status", code=4).stderr


def test_a_folder_that_is_named_is_never_searched_upward(below: Path, tmp_path: Path) -> None:
    assert "is not an sglang tree" in run("status", below, code=4).stderr
    assert "is not an sglang tree" in run("status", "..", code=4).stderr


def test_a_current_folder_that_is_gone_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert "cannot be read" in run("status", code=4).stderr


def test_a_tree_two_links_away_is_the_one_that_the_files_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = write_package(tmp_path / "real" / "sglang")
    (tmp_path / "link").symlink_to(package / "srt")
    monkeypatch.chdir(tmp_path / "link")
    assert answer("status")["tree"]["package"] == str(package)


LONG = "x" * 300
COMMAND = f"python3 -m sglang.launch_server {'--trust-remote-code ' * 20}--attention-backend triton"


@pytest.mark.parametrize(
    "words",
    [
        *(
            (name, LONG)
            for name in ("apply", "audit", "diff", "doctor", "export", "port", "revert", "status", "verify")
        ),
        ("apply", "--continue", LONG),
        ("matrix", LONG, "--refs", "x"),
        ("port", "HEAD", "--onto", LONG),
        ("rebase", LONG, "--onto", "x"),
        ("resolve", LONG, "a", "b"),
        ("test", LONG),
        ("doctor", COMMAND),
        ("doctor", "y/" * 3000),
    ],
    ids=lambda words: " ".join(words)[:30],
)
def test_a_word_that_is_too_long_for_a_path_is_none(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, list(words))
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code in {2, 4}
    assert done.stderr.count("error: ") == 1
