"""An editor that saves a file while a command commits loses nothing, whichever command it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.faults import Faults
from support.repositories import COMMITTING, branched, copied
from support.sweeps import swept
from support.toys import MIRROR

from patchkit import api
from patchkit.cli import main
from patchkit.patchset import load
from patchkit.transaction.store import Store
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

MINE = b"mine = 1\n"
GIT = frozenset({"read-tree", "update-index", "update-ref"})
WRITING = frozenset({"-u", "checkout", "checkout-index", "merge", "reset", "restore", "stash", "switch"})
"""Words of a git that writes the files of a checkout, which may lose what is saved while it does."""
COMMANDS = {**COMMITTING, "apply, verified": ("apply", "{}", "--commit", "--verify")}


@pytest.fixture(scope="module")
def fork(tmp_path_factory: pytest.TempPathFactory) -> CheckoutTree:
    """A checkout with a change of others on one branch, and a newer release on another."""
    return branched(tmp_path_factory.mktemp("saved") / "fork")


def saving(tree: CheckoutTree, path: Path, at: int) -> Faults:
    """Save a file anew, as an editor does, before that exchange or that git which changes the index or a ref.

    Of those that the same lines make the first counts.
    """
    moments: list[str] = []

    def instead(_number: int, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "run" and arguments[0][arguments[0].index("-C") + 1] in {
            str(tree.root),
            str(tree.package),
        }:
            assert WRITING.isdisjoint(arguments[0]), arguments[0]
        is_git = name == "run" and not GIT.isdisjoint(arguments[0])
        if (name == "exchange" or is_git) and faults.tells(itself=True):
            moments.append(name)
            if len(moments) == at:
                aside = path.with_name("mine.tmp")
                aside.write_bytes(path.read_bytes() + MINE)
                aside.replace(path)

    faults = Faults(instead)
    return faults


@pytest.mark.parametrize("name", swept(COMMANDS, lambda name: name != "apply, verified"))
def test_a_save_at_any_step_of_a_command_that_commits_is_kept(
    fork: CheckoutTree, patch_folder: Path, tmp_path: Path, name: str
) -> None:
    assert patch_folder
    start = copied(fork, tmp_path / "start")
    if name in {"revert", "rebase"}:
        api.commit(start, load.patches())
    codes: list[int] = []
    index, path = 0, tmp_path
    while not codes or MINE in path.read_bytes():
        index += 1
        tree = copied(start, tmp_path / str(index) / "fork")
        path = tree.package / MIRROR
        words = [word.format(tree.root) for word in COMMANDS[name]]
        with saving(tree, path, index).on():
            codes.append(CliRunner().invoke(main, words).exit_code)
        if Store(tree.package).pending:
            api.recover(open_tree(tree.root))
        assert codes[-1] == 0 or MINE in path.read_bytes()
    assert codes[-1] == 0
    assert len(codes) > 4
