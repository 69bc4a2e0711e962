"""A refusal to revert names a command only if that command works, and otherwise why there is none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.toys import ABRUPT, CRLF, MIRROR, add_patch, attribute, contents, everything

from patchkit import api
from patchkit.errors import ConflictError
from patchkit.patchset import load

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree


@pytest.fixture(autouse=True)
def chain(patch_folder: Path) -> None:
    """Besides the toys, a patch that requires `t-stop`, which requires `t-flag`."""
    add_patch(patch_folder, "t-last", attribute(CRLF, "Backend", "last = 1"), requires='["t-stop"]')


def refused(tree: CheckoutTree, *names: str) -> str:
    before = everything(tree.root)
    with pytest.raises(ConflictError) as caught:
        api.revert(tree, load.patches(), names)
    assert everything(tree.root) == before
    return str(caught.value)


def edit(tree: CheckoutTree, file: str, old: bytes, new: bytes) -> None:
    path = tree.package / file
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))


def named_in(message: str) -> tuple[str, ...]:
    """Return the patches of the command that a refusal names."""
    (command,) = re.findall(r"patchkit revert ([^.]+)\.$", message)
    return tuple(command.split())


def test_the_command_of_a_refusal_reverts_also_what_requires_those_that_go_too(tree: CheckoutTree) -> None:
    before = contents(tree)
    api.apply(tree, load.patches(), ("t-last",))
    message = refused(tree, "t-flag")
    assert message.startswith("t-stop cannot stay without t-flag: revert them together: ")
    assert named_in(message) == ("t-flag", "t-stop", "t-last")
    api.revert(tree, load.patches(), named_in(message))
    assert contents(tree) == before


@pytest.mark.parametrize("names", [("t-flag",), ("t-stop",), ("t-flag", "t-stop")])
def test_a_refusal_names_no_command_that_would_be_refused_and_says_why(
    tree: CheckoutTree, names: tuple[str, ...]
) -> None:
    api.apply(tree, load.patches(), ("t-last",))
    edit(tree, ABRUPT, b"    limit = 8", b"    limit = 9")
    message = refused(tree, *names)
    assert "patchkit revert t" not in message
    assert "cannot stay without" in message
    assert f"nor can they be reverted together: {ABRUPT}:" in message


def test_what_is_left_of_a_partial_revert_is_told_without_a_command_that_is_refused(
    tree: CheckoutTree,
) -> None:
    api.apply(tree, load.patches(), ("t-last", "t-guard"))
    edit(tree, ABRUPT, b"    limit = 8", b"    limit = 9")
    reverted, left, _ = api.revert_what_can_be(tree, load.patches())
    assert reverted.patches == ("t-guard", "t-last")
    assert set(left) == {"t-flag", "t-stop"}
    assert str(left["t-flag"]) == "t-stop cannot stay without t-flag"
    assert b"guard = 1" not in (tree.read(MIRROR) or b"")
