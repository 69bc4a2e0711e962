"""A file of the checkout beside the package is written with those of the package, or not at all."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from support.faults import killings
from support.toys import MIRROR, checked_in, everything

from patchkit.errors import TreeError
from patchkit.transaction.recover import recover
from patchkit.transaction.write import check_targets, locked, write_targets

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.transaction.write import Exchange
    from patchkit.tree.tree import CheckoutTree

NOTE = "../../notes/patchkit.lock"


def write(tree: CheckoutTree, contents: dict[str, Exchange], emptied: tuple[str, ...] = ()) -> None:
    with locked(tree) as store:
        write_targets(tree, store, check_targets(tree, contents), emptied=emptied)


@pytest.fixture
def fork(tmp_path: Path) -> CheckoutTree:
    return checked_in(tmp_path / "fork")


def test_it_is_made_changed_and_taken_away(fork: CheckoutTree) -> None:
    old = everything(fork.root)
    mirror = fork.read(MIRROR)
    write(fork, {NOTE: (None, b"one"), MIRROR: (mirror, b"mine = 1\n")})
    assert (fork.root / "notes" / "patchkit.lock").read_bytes() == fork.read(NOTE) == b"one"
    write(fork, {NOTE: (b"one", b"two")})
    assert fork.read(NOTE) == b"two"
    write(fork, {NOTE: (b"two", None), MIRROR: (b"mine = 1\n", mirror)}, emptied=("../../notes",))
    assert everything(fork.root) == old


@pytest.mark.parametrize("torn", [False, True])
def test_killed_at_any_call_both_are_old_or_both_are_new(fork: CheckoutTree, torn: bool) -> None:
    mirror = fork.read(MIRROR)
    contents: dict[str, Exchange] = {NOTE: (None, b"one"), MIRROR: (mirror, b"mine = 1\n")}
    ended = set()
    for _ in killings(partial(write, fork, contents), fork.root, torn=torn):
        recover(fork)
        ended.add((fork.read(NOTE), fork.read(MIRROR)))
    assert ended == {(None, mirror), (b"one", b"mine = 1\n")}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../../../beside.txt", "is not in the checkout beside"),
        ("../../.git/hooks/post-commit", "is not in the checkout beside"),
        ("../../out/patchkit.lock", "is not in the checkout beside"),
        ("../sglang/srt/new.py", "is not in the checkout beside"),
        ("../..", "is not a valid file name"),
        ("../../notes/../x", "is not a valid file name"),
        ("srt/../../x", "is not a valid file name"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(fork: CheckoutTree, name: str, reason: str) -> None:
    (fork.root.parent / "elsewhere").mkdir()
    (fork.root / "out").symlink_to(fork.root.parent / "elsewhere")
    before = everything(fork.root.parent)
    with pytest.raises(TreeError, match=reason):
        write(fork, {name: (None, b"one")})
    assert everything(fork.root.parent) == before


def test_without_a_checkout_nothing_is_beside_the_package(tree: CheckoutTree) -> None:
    with pytest.raises(TreeError, match="is not in the checkout beside"):
        write(tree, {NOTE: (None, b"one")})
