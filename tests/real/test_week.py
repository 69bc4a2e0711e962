"""The week in ten commands, as docs/maintaining.md has it, is typed in a fork of a release."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.releases import HAVING, REFERENCE, Releases, run
from support.sweeps import swept
from support.toys import git

REPOSITORY = Path(__file__).parents[2]
CHAPTER = "## A week in ten commands"
# A fork that chose a few patches: one that upstream has in the next release, one that it lacks, and what they bring.
CONFIGURATION = 'chosen = ["26128", "28633"]\n'
OF_A_SHELL = re.compile(r"[>&|$]")
# Of the commands of the chapter those that change nothing; tests of each run them on releases too.
READING = ("matrix", "doctor", "verify", "status")
SMALL = "python/sglang/srt/layers/attention/base_attn_backend.py"


def commands() -> list[str]:
    chapter = (REPOSITORY / "docs" / "maintaining.md").read_text().partition(CHAPTER)[2].partition("\n## ")[0]
    block = chapter.partition("```console\n")[2].partition("```")[0]
    return [re.sub(r"\s{2,}#.*", "", line.removeprefix("$ ")) for line in block.splitlines()]


def commit_release(releases: Releases, fork: Path, version: str) -> None:
    """Have a commit with a release below ``python/``, without a third of its files, of which no patch reads any."""
    for name in git(fork, "ls-files").splitlines():
        (fork / name).unlink()
    releases.copy(version, fork / "python")
    for unread in ("jit_kernel", "test", "srt/debug_utils", "srt/models"):
        shutil.rmtree(fork / "python" / "sglang" / unread)
    (fork / "python" / "pyproject.toml").write_text(f'[project]\nname = "sglang"\nversion = "{version}"\n')
    (fork / "patchkit.toml").write_text(CONFIGURATION)
    git(fork, "add", "-A")
    git(fork, "commit", "-qm", f"Release {version}")


def fork_of(releases: Releases, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a fork with the branches, and with the neighbours, that the chapter speaks of."""
    fork = folder / "fork"
    fork.mkdir()
    git(fork, "init", "-q", "-b", "main")
    commit_release(releases, fork, REFERENCE)
    git(fork, "branch", "release/a")
    git(fork, "checkout", "-qb", "release/0.5.13-patched")
    commit_release(releases, fork, HAVING[0])
    git(fork, "update-ref", "refs/remotes/upstream/v0.5.13", "HEAD")
    monkeypatch.chdir(fork)
    run("apply", "--commit")
    own_fix(fork)
    git(fork, "checkout", "-q", "release/a")
    for name in ("other", "release-a", "release-b"):
        git(folder, "clone", "-q", "-b", "release/a", str(fork), name)
    return fork


def own_fix(fork: Path) -> None:
    """Commit a change on a branch of its own, as a person makes it."""
    git(fork, "checkout", "-qb", "topic", "main")
    path = fork / SMALL
    code = path.read_text()
    head = re.search(r"^class AttentionBackend\(.*\n", code, re.MULTILINE)
    assert head is not None
    path.write_text(code.replace(head[0], f"{head[0]}    fork_flag = True\n", 1))
    git(fork, "commit", "-qam", "A flag of our own")


def in_a_shell(command: str, fork: Path) -> str:
    done = subprocess.run(["bash", "-c", command], cwd=fork, check=False, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stdout[-1500:], done.stderr[-1500:])
    return done.stdout


def typed(command: str, fork: Path) -> str:
    """Run a command in the fork; return its output. What needs no shell runs in this process."""
    first, _, then = command.partition(" && ")
    if OF_A_SHELL.search(first):
        return in_a_shell(command, fork)
    output = run(*shlex.split(first)[1:]).stdout
    return output + in_a_shell(then, fork) if then else output


@pytest.mark.parametrize("left_out", swept([(), READING], READING.__eq__), ids=" ".join)
def test_each_command_of_the_week_does_what_it_says(
    releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: tuple[str, ...]
) -> None:
    patchkit = (sys.executable, "-m", "patchkit")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "patchkit"
    program.write_text(f'#!/bin/sh\nexec {" ".join(patchkit)} "$@"\n')
    program.chmod(0o755)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ann@acme.example")
    fork = fork_of(releases, tmp_path, monkeypatch)
    week = commands()
    assert len(week) == 10
    assert {command.split()[1] for command in week} > {*READING}
    outputs: dict[str, str] = {}
    for command in week:
        if command.split()[1] in left_out:
            continue
        outputs[" ".join(command.split()[1:4])] = typed(command, fork)
        if "apply --commit" in command:
            assert git(fork, "rev-parse", "HEAD^{tree}") == git(
                tmp_path / "other", "rev-parse", "HEAD^{tree}"
            )
    if not left_out:
        assert "release/0.5.13-patched" in outputs["matrix . --refs"]
        assert "26128" in (fork / "BACKPORTS.md").read_text()
    assert "applied" in outputs["rebase --onto upstream/v0.5.13"]
    assert "Merged release/0.5.13-patched" in outputs["rebase --onto release/0.5.13-patched"]
    assert (fork / "my-patches" / "my-fix" / "patch.toml").is_file()
    assert outputs["test my-patches/my-fix --on"].count("pending") == 2
