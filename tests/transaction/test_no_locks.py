"""Where the system refuses locks, nothing is written or left behind, and the error says what is missing."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.toys import everything, git

from patchkit.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")
_REFUSALS = {name: getattr(errno, name) for name in ("ENOLCK", "ENOSYS", "EOPNOTSUPP", "ESTALE")}


def refuse_locks(monkeypatch: pytest.MonkeyPatch, code: int, only: str = "") -> None:
    real = fcntl.flock

    def flock(handle: int, operation: int) -> None:
        if only in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(code, os.strerror(code))
        real(handle, operation)

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("code", _REFUSALS)
@pytest.mark.parametrize("case", [("fork",), ("fork", "--commit"), ("temporary", "--commit")], ids=" ".join)
def test_a_write_is_refused(
    checkout: CheckoutTree,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    case: tuple[str, ...],
) -> None:
    git(checkout.root, "config", "user.name", "A Person")
    git(checkout.root, "config", "user.email", "person@example.com")
    before = everything(checkout.root)
    where, *options = case
    refuse_locks(monkeypatch, _REFUSALS[code], f"/{where}/")
    done = CliRunner().invoke(main, ["apply", str(checkout.root), *options])
    assert done.exit_code == 4, done.output
    assert "refuses locks" in done.stderr
    assert everything(checkout.root) == before
    assert not any(temporary.iterdir())
    assert git(checkout.root, "worktree", "list").count("\n") == 1


def test_a_lock_file_that_another_process_made_is_left_alone(
    checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = checkout.package / ".patchkit" / "lock"
    lock.parent.mkdir()
    lock.write_text("process 1 on elsewhere")
    refuse_locks(monkeypatch, errno.ENOLCK)
    done = CliRunner().invoke(main, ["apply", str(checkout.root)])
    assert "refuses locks" in done.stderr
    assert lock.read_text() == "process 1 on elsewhere"
