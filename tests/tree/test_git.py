"""A failure to start git is told with the system's reason."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from patchkit.errors import TreeError
from patchkit.series.plumbing import run_git
from patchkit.transaction.store import Store
from patchkit.tree.git import git, object_reader, top_around

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    from patchkit.tree.tree import CheckoutTree


def leave_files(stack: ExitStack, free: int) -> None:
    """Open files until this process may open only ``free`` more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    taken: list[int] = []
    with suppress(OSError):
        while True:
            taken.append(os.dup(0))
    for number, handle in enumerate(taken):
        if number < free:
            os.close(handle)
        else:
            stack.callback(os.close, handle)


def test_a_command_line_that_is_too_long_is_not_a_missing_git(checkout: CheckoutTree) -> None:
    with pytest.raises(TreeError, match="Argument list too long"):
        git(checkout.root, "commit-tree", "HEAD^{tree}", "-m", "x" * 200_000)


def test_too_many_open_files_are_not_a_missing_git(checkout: CheckoutTree) -> None:
    with ExitStack() as stack:
        leave_files(stack, 0)
        with pytest.raises(TreeError, match="Too many open files"):
            git(checkout.root, "rev-parse", "HEAD")
        with pytest.raises(TreeError, match="Too many open files"):
            object_reader(checkout.root)


def test_a_git_that_is_not_there_is_told_so(checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout.root))
    with pytest.raises(TreeError, match="not on PATH"):
        git(checkout.root, "rev-parse", "HEAD")


def test_too_many_open_files_are_no_link_in_place_of_patchkits_own_folder(checkout: CheckoutTree) -> None:
    (checkout.package / ".patchkit").mkdir()
    with ExitStack() as stack:
        leave_files(stack, 1)
        with pytest.raises(TreeError, match="Too many open files"):
            Store(checkout.package).journal()


def test_a_link_in_place_of_patchkits_own_folder_is_told_so(checkout: CheckoutTree) -> None:
    (checkout.package / ".patchkit").symlink_to(checkout.root)
    with pytest.raises(TreeError, match="is a link or not a folder"):
        Store(checkout.package).journal()


def test_a_repository_that_may_not_be_read_is_one(
    checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "listdir", refused)
    assert top_around(checkout.package) == checkout.root


@pytest.mark.parametrize(
    "run",
    [git, partial(git, personal=True), partial(git, named=True), run_git],
    ids=["plain", "personal", "named", "own"],
)
def test_a_path_behind_two_hyphens_is_itself_and_no_pattern(
    checkout: CheckoutTree, run: Callable[..., CompletedProcess[bytes]]
) -> None:
    for name in ("desk[1].py", "desk1.py"):
        (checkout.root / name).write_text("")
    assert run(checkout.root, "ls-files", "--others", "--", "desk[1].py").stdout == b"desk[1].py\n"
