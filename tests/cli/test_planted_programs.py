"""No command that only reads a repository runs a program that its configuration or its hooks name."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.releases import run
from support.toys import git

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")

_SIGNATURE = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n aGk=\n -----END PGP SIGNATURE-----\n"


def signed_head(root: Path) -> None:
    """Give HEAD a signature, which git checks with a program where it shows signatures."""
    head, _, message = git(root, "cat-file", "commit", "HEAD").partition("\n\n")
    words = ["git", "-C", str(root), "hash-object", "-t", "commit", "-w", "--stdin"]
    text = f"{head}\n{_SIGNATURE}\n{message}".encode()
    made = subprocess.run(words, input=text, capture_output=True, check=True).stdout.decode().strip()
    git(root, "update-ref", "HEAD", made)


@pytest.fixture
def marks(checkout: CheckoutTree, tmp_path: Path) -> Path:
    """A folder in which each program that the repository names leaves its mark; committed patches, no ledger."""
    root, marks = checkout.root, tmp_path / "marks"
    marks.mkdir()
    git(root, "config", "user.name", "A Person")
    git(root, "config", "user.email", "person@example.com")
    run("apply", root, "--commit")
    shutil.rmtree(checkout.package / ".patchkit")
    signed_head(root)

    def program(name: str) -> str:
        path = tmp_path / "programs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch '{marks / name}'\ncat 2>/dev/null\n")
        path.chmod(0o755)
        return str(path)

    settings = {
        "core.fsmonitor": program("fsmonitor"),
        "core.pager": program("pager"),
        "core.sshCommand": program("ssh"),
        "core.alternateRefsCommand": program("alternate"),
        "credential.helper": program("credential"),
        "diff.external": program("external"),
        "diff.planted.command": program("driver"),
        "diff.planted.textconv": program("textconv"),
        "filter.planted.clean": program("clean"),
        "filter.planted.smudge": program("smudge"),
        "filter.planted.required": "true",
        "gpg.program": program("gpg"),
        "log.showSignature": "true",
        "alias.log": f"!{program('alias')}",
    }
    (root / ".git" / "info").mkdir(exist_ok=True)
    (root / ".git" / "info" / "attributes").write_text("*.py diff=planted filter=planted\n")
    for name, value in settings.items():
        git(root, "config", name, value)
    hooks = root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "reference-transaction", "pre-commit", "post-checkout", "commit-msg"):
        shutil.copy(program(name), hooks / name)
    return marks


def test_revert_without_a_ledger_runs_nothing_of_the_repository(checkout: CheckoutTree, marks: Path) -> None:
    run("revert", checkout.root)
    assert sorted(path.name for path in marks.iterdir()) == []
    assert "needs_host" not in (checkout.package / "srt/managers/mirror.py").read_text()


def test_export_runs_nothing_of_the_repository(checkout: CheckoutTree, marks: Path, tmp_path: Path) -> None:
    git(checkout.root, "-c", "core.hooksPath=/dev/null", "update-ref", "HEAD", "HEAD~3")
    series = tmp_path / "series"
    for mark in marks.iterdir():
        mark.unlink()
    run("export", checkout.root, "-o", series)
    assert sorted(path.name for path in marks.iterdir()) == []
    assert len(list(series.glob("*.patch"))) == 3


def test_commands_that_read_refs_run_nothing_of_the_repository(checkout: CheckoutTree, marks: Path) -> None:
    run("status", checkout.root)
    run("matrix", checkout.root, "--refs", "HEAD", "--verify")
    run("rebase-check", checkout.root, "--onto", "HEAD~1")
    run("new", "mine", "--from-commit", "HEAD", "-o", marks.parent / "mine", "--on", checkout.root)
    assert sorted(path.name for path in marks.iterdir()) == []
