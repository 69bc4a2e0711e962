"""The contents of files from before the patches, as git's history has them in every clone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.toys import COPIES, DEPTH, MIRROR, SOURCES, apply, git

from patchkit.transaction.history import REVERTED, Original, new_files, originals_of
from patchkit.tree.checkout import Checkout
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.tree.tree import CheckoutTree

AUTHOR = ("-c", "user.name=A", "-c", "user.email=a@example.org")
MOVED = "srt/moved.py"
BOTH = frozenset({"copies", "depth"})


def commit(tree: CheckoutTree, message: str = "Change") -> None:
    git(tree.root, "add", "-A")
    git(tree.root, *AUTHOR, "commit", "-qm", message)


def write(tree: CheckoutTree, text: bytes, file: str = MIRROR) -> None:
    (tree.package / file).write_bytes(text)


def tidied(tree: CheckoutTree) -> bytes:
    lines = (tree.package / MIRROR).read_bytes().splitlines(keepends=True)
    return b"".join(line for line in lines if b"# patchkit" not in line)


def patched(tree: CheckoutTree) -> None:
    apply(tree, COPIES, DEPTH)
    commit(tree)


def patched_one_by_one(tree: CheckoutTree) -> None:
    apply(tree, COPIES)
    commit(tree)
    apply(open_tree(tree.root), DEPTH)
    commit(tree)


def patched_above_an_own_change(tree: CheckoutTree) -> None:
    write(tree, SOURCES[MIRROR] + b"own = 1\n")
    commit(tree)
    patched(open_tree(tree.root))


def tidied_since(tree: CheckoutTree) -> None:
    patched(tree)
    write(tree, tidied(tree))
    commit(tree)


def tidied_and_not_committed(tree: CheckoutTree) -> None:
    patched(tree)
    write(tree, tidied(tree))


def not_committed(tree: CheckoutTree) -> None:
    apply(tree, COPIES, DEPTH)


def reverted_by_patchkit(tree: CheckoutTree) -> None:
    patched(tree)
    write(tree, SOURCES[MIRROR] + b"later = 1\n")
    commit(tree, f"Revert\n\n{REVERTED}: copies\n{REVERTED}: depth\n")


def one_reverted_by_patchkit(tree: CheckoutTree) -> None:
    patched(tree)
    text = (tree.package / MIRROR).read_bytes()
    write(tree, b"".join(line for line in text.splitlines(keepends=True) if b"patchkit copies" not in line))
    commit(tree, f"Revert\n\n{REVERTED}: copies\n")


CASES: dict[str, tuple[Callable[[CheckoutTree], None], bytes, frozenset[str]]] = {
    "nothing was applied": (lambda tree: None, SOURCES[MIRROR], frozenset()),
    "two patches in one commit": (patched, SOURCES[MIRROR], BOTH),
    "two patches in two": (patched_one_by_one, SOURCES[MIRROR], BOTH),
    "above a change of the fork": (patched_above_an_own_change, SOURCES[MIRROR] + b"own = 1\n", BOTH),
    "their comments went later": (tidied_since, SOURCES[MIRROR], BOTH),
    "their comments went and it is not committed": (tidied_and_not_committed, SOURCES[MIRROR], BOTH),
    "they are not committed": (not_committed, SOURCES[MIRROR], frozenset()),
    "patchkit reverted them": (reverted_by_patchkit, SOURCES[MIRROR] + b"later = 1\n", frozenset()),
    "patchkit reverted one": (one_reverted_by_patchkit, SOURCES[MIRROR], frozenset({"depth"})),
}


@pytest.mark.parametrize(("make", "content", "patches"), CASES.values(), ids=CASES)
def test_the_content_from_before_the_patches(
    checkout: CheckoutTree, make: Callable[[CheckoutTree], None], content: bytes, patches: frozenset[str]
) -> None:
    make(checkout)
    tree = open_tree(checkout.root)
    around = Checkout.tracking(tree.package)
    assert around is not None
    assert originals_of(tree, around, [MIRROR]) == {MIRROR: Original(content, patches)}
    assert originals_of(tree, around, []) == {}


def test_a_patched_file_that_was_moved_has_the_content_from_before_under_its_former_name(
    checkout: CheckoutTree,
) -> None:
    patched(checkout)
    git(checkout.root, "mv", f"python/sglang/{MIRROR}", f"python/sglang/{MOVED}")
    commit(checkout)
    tree = open_tree(checkout.root)
    around = Checkout.tracking(tree.package)
    assert around is not None
    assert originals_of(tree, around, [MOVED]) == {MOVED: Original(SOURCES[MIRROR], BOTH)}


def test_what_a_commit_of_known_files_would_leave_out(checkout: CheckoutTree, tree: CheckoutTree) -> None:
    assert new_files(checkout, [MIRROR]) == ()
    write(checkout, b"x = 1\n", MOVED)
    assert new_files(checkout, [MIRROR, MOVED]) == (checkout.package / MOVED,)
    apply(checkout, COPIES, allow_dirty=True)
    later = open_tree(checkout.root)
    assert {*new_files(later, [MIRROR, MOVED])} == {checkout.package / MOVED, later.record_path}
    assert new_files(tree, [MIRROR, MOVED]) == ()
