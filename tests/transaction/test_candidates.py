"""The records that can describe a tree: a port of which a content is lost is in none, and history has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.toys import MIRROR, SOURCES, git, planner_of

from patchkit.plan.record import AppliedFile, AppliedPatch, Record, files_of
from patchkit.transaction.candidates import Candidates
from patchkit.transaction.swap import digest_of
from patchkit.transaction.write import record_path
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree


def recorded(tree: CheckoutTree, *ports: tuple[str, bytes, bytes]) -> CheckoutTree:
    """Return a tree whose record has these ports of one file."""
    known = Record()
    for name, before, after in ports:
        change = {MIRROR: AppliedFile(digest_of(before), digest_of(after), (name,))}
        known = known.with_applied(change, [AppliedPatch(name, (), ())], ported=True)
    folder = record_path(tree)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files_of(known).items():
        (folder / name).write_bytes(text)
    return open_tree(tree.root)


def found(tree: CheckoutTree) -> tuple[frozenset[str], frozenset[str]]:
    """Return the patches in the code, and those of the first record that can describe it."""
    candidates = Candidates(tree, planner_of(tree))
    first = next(iter(candidates), None)
    return candidates.in_code, frozenset() if first is None else frozenset(first.record.patches)


def test_a_port_of_which_git_lacks_a_content_is_not_in_the_record_that_a_revert_uses(
    checkout: CheckoutTree,
) -> None:
    text = SOURCES[MIRROR]
    made = b"made = 1\n" + text
    (checkout.package / MIRROR).write_bytes(made + b"own = 1\n")
    git(checkout.root, "hash-object", "-w", str(checkout.package / MIRROR))
    tree = recorded(checkout, ("7", text, made + b"own = 1\n"))
    assert found(tree) == ({"7"}, {"7"})
    assert Candidates(tree, planner_of(tree)).originals == {MIRROR: text}
    tree = recorded(checkout, ("7", b"lost = 1\n", made + b"own = 1\n"))
    assert found(tree)[0] == frozenset()


def test_without_git_nobody_else_has_a_content(tree: CheckoutTree) -> None:
    text = SOURCES[MIRROR] + b"own = 1\n"
    (tree.package / MIRROR).write_bytes(text)
    assert found(recorded(tree, ("7", b"lost = 1\n", text))) == ({"7"}, {"7"})
