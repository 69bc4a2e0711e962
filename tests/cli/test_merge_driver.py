"""Git's own commands use the driver after --install, and what goes wrong in it leaves git's merge."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from patchkit.cli import main
from patchkit.commands import merge_driver

BASE = "import os\n\n\ndef lend(book):\n    return book\n"
OURS = BASE.replace("import os\n", "import os\nimport re\n")
THEIRS = BASE.replace("import os\n", "import os\nimport ast\n")
BOTH = {"import os\n", "import re\n", "import ast\n"}
KINDS = 'KINDS = {"atlas": %s}\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for git, with a name, and no repository around it."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    for name in ("GIT_CONFIG_GLOBAL", "GIT_DIR", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    git(folder, "config", "--global", "user.name", "A")
    git(folder, "config", "--global", "user.email", "a@example.org")
    git(folder, "config", "--global", "init.defaultBranch", "main")
    return folder


def git(folder: Path, *words: str, code: int | None = 0) -> str:
    done = subprocess.run(("git", *words), cwd=folder, capture_output=True, text=True, check=False)
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done.stdout


def repository(folder: Path, ours: str = OURS, theirs: str = THEIRS, base: str = BASE) -> Path:
    """Return a repository on main with ``ours``, and the branch other with ``theirs``; both change ``base``."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for branch, text in (("main", base), ("other", theirs), ("main", ours)):
        git(folder, "checkout", "-q", "-B" if text == theirs else "-q", branch, code=None)
        (folder / "shelf.py").write_text(text)
        git(folder, "add", "shelf.py")
        git(folder, "commit", "-q", "-m", f"{branch} {len(text)}")
    return folder


def patchkit(folder: Path, *words: str) -> Result:
    before = Path.cwd()
    os.chdir(folder)
    try:
        return CliRunner().invoke(main, ["merge-driver", *words])
    finally:
        os.chdir(before)


def installed(folder: Path, *words: str) -> Path:
    result = patchkit(folder, "--install", *words)
    assert result.exit_code == 0, result.output
    assert result.output.count("\n") == 1
    return folder


def lines(folder: Path) -> set[str]:
    return {line for line in (folder / "shelf.py").read_text().splitlines(keepends=True) if "import" in line}


# ---- the command ----------------------------------------------------------------------------------------------------


def files(folder: Path, base: str, ours: str, theirs: str) -> list[str]:
    paths = [folder / name for name in ("O", "A", "B")]
    for path, text in zip(paths, (base, ours, theirs), strict=True):
        path.write_bytes(text.encode())
    return list(map(str, paths))


def test_it_writes_ours_and_exits_0(tmp_path: Path) -> None:
    result = patchkit(tmp_path, *files(tmp_path, BASE, OURS, THEIRS), "shelf.py")
    assert (result.exit_code, result.output) == (0, "")
    assert set((tmp_path / "A").read_text().splitlines(keepends=True)) >= BOTH
    assert sorted(path.name for path in tmp_path.iterdir()) == ["A", "B", "O"]


def test_it_exits_1_with_markers_around_both_sides(tmp_path: Path) -> None:
    names = files(tmp_path, *(BASE + KINDS % n for n in (1, 2, 3)))
    labels = ("--marker-size", "9", "--labels", "mine", "old", "yours")
    assert patchkit(tmp_path, *labels, "--", *names, "shelf.py").exit_code == 1
    signs = "<" * 9, "=" * 9, ">" * 9
    marked = f"{signs[0]} mine\n{KINDS % 2}{signs[1]}\n{KINDS % 3}{signs[2]} yours\n"
    assert (tmp_path / "A").read_text() == BASE + marked


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("shelf.txt", ""),
        ("shelf.py", "x = (\n"),
        ("shelf.py", "\r\n"),
        ("shelf.py", "# \xe9\0\n"),
    ],
    ids=["no Python", "a syntax error", "CRLF", "binary"],
)
def test_what_it_cannot_read_is_as_git_merges_it(tmp_path: Path, name: str, ending: str) -> None:
    versions = BASE + ending, OURS + ending, THEIRS + ending
    names = files(tmp_path, *versions)
    done = subprocess.run(
        ("git", "merge-file", "-p", "-L", "ours", "-L", "base", "-L", "theirs", names[1], names[0], names[2]),
        capture_output=True,
        check=False,
    )
    assert patchkit(tmp_path, *names, name).exit_code == 1
    wanted = done.stdout if done.returncode == 1 else versions[1].encode()
    assert (tmp_path / "A").read_bytes() == wanted


def test_a_fault_of_its_own_leaves_git_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr("patchkit.change.sides.merged", fail)
    names = files(tmp_path, BASE, OURS, THEIRS)
    assert patchkit(tmp_path, *names, "shelf.py").exit_code == 1
    assert "<<<<<<< ours\nimport re\n=======\nimport ast\n>>>>>>> theirs\n" in (tmp_path / "A").read_text()


def test_ours_is_whole_if_it_is_killed_before_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", fail)
    names = files(tmp_path, BASE, OURS, THEIRS)
    assert patchkit(tmp_path, *names, "shelf.py").exit_code != 0
    assert (tmp_path / "A").read_text() == OURS


@pytest.mark.parametrize(
    "words",
    [(), ("A", "B"), ("--global",), ("--install", "A"), ("no", "such", "files")],
    ids="-".join,
)
def test_wrong_words_are_one_sentence(home: Path, words: tuple[str, ...]) -> None:
    result = patchkit(home, *words)
    assert result.exit_code == 2
    assert result.stderr.count("error:") == 1
    assert "help: " in result.stderr


# ---- git's commands -------------------------------------------------------------------------------------------------


def test_merge(home: Path, tmp_path: Path) -> None:
    folder = installed(repository(tmp_path / "work"))
    git(folder, "merge", "-q", "other")
    assert lines(folder) == BOTH


def test_rebase(home: Path, tmp_path: Path) -> None:
    folder = installed(repository(tmp_path / "work"))
    git(folder, "rebase", "-q", "other")
    assert lines(folder) == BOTH


def test_cherry_pick(home: Path, tmp_path: Path) -> None:
    folder = installed(repository(tmp_path / "work"))
    git(folder, "cherry-pick", "other")
    assert lines(folder) == BOTH


def test_am_3(home: Path, tmp_path: Path) -> None:
    folder = installed(repository(tmp_path / "work"))
    (tmp_path / "mail").write_text(git(folder, "format-patch", "-1", "--stdout", "other"))
    git(folder, "am", "-q", "-3", str(tmp_path / "mail"))
    assert lines(folder) == BOTH


def test_stash_pop(home: Path, tmp_path: Path) -> None:
    folder = installed(repository(tmp_path / "work"))
    git(folder, "checkout", "-q", "main~1")
    (folder / "shelf.py").write_text(THEIRS)
    git(folder, "stash")
    git(folder, "checkout", "-q", "main")
    git(folder, "stash", "pop")
    assert lines(folder) == BOTH


def test_a_rebase_in_a_subfolder_of_a_linked_worktree_with_quotes_in_its_name(
    home: Path, tmp_path: Path
) -> None:
    folder = installed(repository(tmp_path / 'it\'s a "work"'))
    linked = tmp_path / "a linked $HOME `tree`"
    git(folder, "checkout", "-q", "--detach")
    git(folder, "worktree", "add", "-q", str(linked), "main")
    (linked / "sub").mkdir()
    git(linked / "sub", "rebase", "-q", "other")
    assert lines(linked) == BOTH


def test_a_file_with_a_space_and_quotes_in_its_name(home: Path, tmp_path: Path) -> None:
    folder = installed(repository(tmp_path / "work"))
    for branch in ("main", "other"):
        git(folder, "checkout", "-q", branch)
        git(folder, "mv", "shelf.py", "a 'shelf' \"1\".py")
        git(folder, "commit", "-q", "-m", "mv")
    git(folder, "merge", "-q", "main")
    assert set((folder / "a 'shelf' \"1\".py").read_text().splitlines(keepends=True)) >= BOTH


def test_rerere_resolves_what_the_driver_leaves(home: Path, tmp_path: Path) -> None:
    texts = (OURS + KINDS % 2, THEIRS + KINDS % 3, BASE + KINDS % 1)
    folder = installed(repository(tmp_path / "work", *texts))
    git(folder, "config", "rerere.enabled", "true")
    git(folder, "merge", "-q", "other", code=1)
    left = (folder / "shelf.py").read_text()
    assert left.count("<<<<<<<") == 1
    assert set(left.splitlines(keepends=True)) >= BOTH
    resolved = left[: left.index("<<<<<<<")] + KINDS % 4
    (folder / "shelf.py").write_text(resolved)
    git(folder, "commit", "-q", "-a", "-m", "merged")
    git(folder, "reset", "-q", "--hard", "HEAD~1")
    git(folder, "merge", "-q", "other", code=1)
    assert (folder / "shelf.py").read_text() == resolved


@pytest.mark.parametrize("style", ["merge", "diff3", "zdiff3"])
def test_its_markers_have_the_style_that_git_is_told(home: Path, tmp_path: Path, style: str) -> None:
    texts = (BASE + KINDS % 2, BASE + KINDS % 3, BASE + KINDS % 1)
    folder = repository(tmp_path / "work", *texts)
    git(folder, "config", "merge.conflictStyle", style)
    plain, found = (
        (
            git(folder, "merge", "-q", "other", code=1),
            (folder / "shelf.py").read_text(),
            git(folder, "merge", "--abort"),
        )[1]
        for _ in (0, installed(folder))
    )
    assert [line.split(" ")[0] for line in plain.splitlines()] == [
        line.split(" ")[0] for line in found.splitlines()
    ]


# ---- a driver that is gone, or killed -------------------------------------------------------------------------------


def told(folder: Path, python: str) -> None:
    """Let git run another program in place of the interpreter."""
    command = git(folder, "config", "merge.patchkit.driver")
    assert command.startswith(sys.executable)
    git(folder, "config", "merge.patchkit.driver", command.strip().replace(sys.executable, python, 1))


@pytest.mark.parametrize("script", [None, "kill -9 $$", "exit 2"], ids=["gone", "killed", "2"])
def test_git_merges_itself_where_the_interpreter_fails(
    home: Path, tmp_path: Path, script: str | None
) -> None:
    folder = installed(repository(tmp_path / "work"))
    program = tmp_path / "python"
    if script is not None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    told(folder, str(program))
    git(folder, "merge", "-q", "other", code=1)
    assert git(folder, "ls-files", "-u")
    text = (folder / "shelf.py").read_text()
    assert "<<<<<<< ours\nimport re\n=======\nimport ast\n>>>>>>> theirs\n" in text


def test_git_merges_itself_where_patchkit_cannot_be_imported(home: Path, tmp_path: Path) -> None:
    folder = installed(repository(tmp_path / "work"))
    # An interpreter without any package.
    told(folder, f"{sys.executable} -I -S")
    done = subprocess.run(
        ("git", "merge", "-q", "other"), cwd=folder, capture_output=True, text=True, check=False
    )
    assert "<<<<<<< ours\nimport re\n=======\nimport ast\n" in (folder / "shelf.py").read_text(), done.stderr


def test_a_package_of_the_repository_with_its_name_is_not_imported(home: Path, tmp_path: Path) -> None:
    folder = installed(repository(tmp_path / "work"))
    (folder / "patchkit").mkdir()
    (folder / "patchkit" / "__init__.py").write_text("raise SystemExit('taken over')\n")
    (folder / "click.py").write_text("raise SystemExit('taken over')\n")
    git(folder, "merge", "-q", "other")
    assert lines(folder) == BOTH


# ---- install --------------------------------------------------------------------------------------------------------


def test_installing_twice_writes_nothing_more(home: Path, tmp_path: Path) -> None:
    folder = installed(repository(tmp_path / "work"))
    attributes, config = folder / ".git/info/attributes", folder / ".git/config"
    before = attributes.read_text(), config.read_text()
    installed(folder)
    assert (attributes.read_text(), config.read_text()) == before
    assert before[0] == f"{merge_driver.LINE}\n"


def test_what_a_person_wrote_stays_and_wins(home: Path, tmp_path: Path) -> None:
    folder = repository(tmp_path / "work")
    attributes = folder / ".git/info/attributes"
    attributes.parent.mkdir(exist_ok=True)
    own = "# mine\nshelf.py merge=union\n*.txt text"
    attributes.write_text(own)
    config = (folder / ".git/config").read_text()
    installed(folder)
    assert attributes.read_text() == f"{merge_driver.LINE}\n{own}"
    assert git(folder, "check-attr", "merge", "shelf.py") == "shelf.py: merge: union\n"
    result = patchkit(folder, "--uninstall")
    assert result.exit_code == 0
    assert attributes.read_text() == own
    assert (folder / ".git/config").read_text() == config


def test_uninstalling_leaves_no_trace_and_says_if_there_was_none(home: Path, tmp_path: Path) -> None:
    folder = repository(tmp_path / "work")
    attributes = folder / ".git/info/attributes"
    attributes.unlink(missing_ok=True)
    installed(folder)
    assert "no longer merges" in patchkit(folder, "--uninstall").output
    assert not attributes.exists()
    assert "did not merge" in patchkit(folder, "--uninstall").output
    git(folder, "merge", "-q", "other", code=1)


@pytest.mark.parametrize("named", [False, True])
def test_it_is_installed_for_all_repositories(home: Path, tmp_path: Path, *, named: bool) -> None:
    if named:
        git(home, "config", "--global", "core.attributesFile", "~/own attributes")
    attributes = home / ("own attributes" if named else ".config/git/attributes")
    installed(home, "--global")
    assert attributes.read_text() == f"{merge_driver.LINE}\n"
    folder = repository(tmp_path / "work")
    git(folder, "merge", "-q", "other")
    assert lines(folder) == BOTH
    assert patchkit(home, "--uninstall", "--global").exit_code == 0
    assert not attributes.exists()


def test_outside_of_a_repository_it_says_what_to_type(home: Path) -> None:
    result = patchkit(home, "--install")
    assert result.exit_code == 4
    assert "--global" in result.stderr


def test_an_interpreter_with_a_space_and_a_percent_sign_in_its_path(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repository(tmp_path / "work")
    program = tmp_path / "it's 100%A of" / "python"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    installed(folder)
    git(folder, "merge", "-q", "other")
    assert lines(folder) == BOTH
    shutil.rmtree(program.parent)
