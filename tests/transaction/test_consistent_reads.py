"""Answers about a tree describe its state before or after another patchkit's write, never a mixture."""

from __future__ import annotations

import os
import shutil
from functools import partial
from typing import TYPE_CHECKING

import pytest
from support.repositories import committing
from support.toys import ABRUPT, CRLF, MIRROR, checked_in, edit, git

from patchkit import api
from patchkit.commands.port import port
from patchkit.errors import ConflictError, TreeError
from patchkit.findings.finding import Confidence
from patchkit.patchset.load import patches as load
from patchkit.series.source import Source
from patchkit.transaction import apply as applying
from patchkit.transaction.store import Store
from patchkit.transaction.write import locked, read_consistently
from patchkit.tree.tree import CheckoutTree, ReadTree, open_tree
from patchkit.verify.subject import Criteria

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Act = Callable[[CheckoutTree], object]

pytestmark = pytest.mark.usefixtures("patch_folder")


class Meanwhile:
    """Lets another patchkit write just before one of the patched files is read for the time ``at``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, act: Callable[[], object]) -> None:
        self.reads = 0
        read = CheckoutTree.read

        def reading(tree: CheckoutTree, file: str) -> bytes | None:
            if file in (MIRROR, CRLF, ABRUPT) and self.reads < at:
                self.reads += 1
                if self.reads == at:
                    act()
            return read(tree, file)

        monkeypatch.setattr(CheckoutTree, "read", reading)


def beside(ask: Act, act: Act, copy: Callable[[int], CheckoutTree]) -> Iterator[tuple[CheckoutTree, object]]:
    """Yield each copy of a tree with its answer: in the first, ``act`` comes before the first read, and so on."""
    for index in range(1, 1000):
        tree = copy(index)
        with pytest.MonkeyPatch.context() as patched:
            meanwhile = Meanwhile(patched, index, partial(act, tree))
            found = ask(tree)
        if meanwhile.reads < index:
            return
        yield tree, found


def nothing(tree: CheckoutTree) -> None:
    """Leave the tree unpatched."""


def copied(tree: CheckoutTree, folder: Path) -> CheckoutTree:
    """Return a copy of a checkout."""
    return open_tree(shutil.copytree(tree.root, folder, symlinks=True))


def apply(tree: CheckoutTree) -> object:
    return api.apply(tree, load())


def revert(tree: CheckoutTree) -> object:
    return api.revert(tree, load())


def give_up(tree: CheckoutTree) -> object:
    return git(tree.root, "checkout", "-q", ".")


def commit(tree: CheckoutTree) -> object:
    return api.commit(tree, load())


def status(tree: CheckoutTree) -> object:
    return {status.state.value for status in api.status(tree, load())}


def diff(tree: CheckoutTree) -> object:
    return {change.file for change in api.diff(tree, load()).changes}


def rehearse(tree: CheckoutTree) -> object:
    return set(api.apply(tree, load(), dry_run=True).files)


def verify(tree: CheckoutTree) -> object:
    verdict = api.verify(tree, load(), Criteria(Confidence.LIKELY))
    return [(result.check, result.outcome, result.summary) for result in verdict.results]


@pytest.mark.parametrize(
    ("answer", "before", "act"),
    [
        (status, nothing, apply),
        (status, apply, give_up),
        (diff, apply, revert),
        (rehearse, apply, give_up),
        (verify, nothing, commit),
    ],
)
def test_an_answer_beside_a_write_is_that_of_before_or_after_it(
    tmp_path: Path, answer: Act, before: Act, act: Act
) -> None:
    """The write comes before each read of a patched file in turn."""
    answers = []
    create = committing(checked_in(tmp_path / "fork"))
    before(create)
    old = answer(create)
    for tree, found in beside(answer, act, lambda at: copied(create, tmp_path / str(at))):
        answers.append(found)
        assert found in (old, answer(tree))
    assert len(answers) > 2


def test_a_port_beside_a_save_is_that_of_before_or_after_it(tmp_path: Path) -> None:
    theirs = committing(checked_in(tmp_path / "theirs"))
    for file, old, new in ((MIRROR, b"depth = 1", b"depth = 2"), (CRLF, b"stride = 1", b"stride = 2")):
        edit(theirs, file, old, new)
    git(theirs.root, "commit", "-qam", "Something of theirs")

    def create(number: int) -> CheckoutTree:
        return committing(checked_in(tmp_path / str(number) / "fork"))

    def ported(tree: CheckoutTree) -> object:
        with Source(("HEAD",), "", theirs.root) as source:
            result = port(source, tree, keep_going=True, allow_dirty=True, dry_run=True)
        edits = [(file.onto, edit.outcome) for file in result.changes[0].files for edit in file.edits]
        return edits, result.changed

    def save(tree: CheckoutTree) -> None:
        edit(tree, CRLF, b"stride = 1", b"stride = 2")
        edit(tree, MIRROR, b"depth = 1", b"depth = 3")

    answers = []
    before = ported(create(0))
    for tree, found in beside(ported, save, create):
        answers.append(found)
        assert found in (before, ported(tree))
    assert len(answers) > 2


def test_an_edit_that_is_taken_out_while_resolve_looks_for_it_is_not_recorded(tmp_path: Path) -> None:
    def create(number: int) -> CheckoutTree:
        tree = committing(checked_in(tmp_path / str(number) / "fork"))
        edit(tree, MIRROR, b"copies = 0\n", b"copies = 0\n    guard = 1\n")
        return tree

    def resolved(tree: CheckoutTree) -> object:
        try:
            return api.resolve(tree, load(), "t-guard", next(iter(load().get("t-guard").edits)).name)
        except (ConflictError, TreeError) as error:
            return type(error)

    def taking_out(tree: CheckoutTree) -> None:
        edit(tree, MIRROR, b"    guard = 1\n", b"")

    answers = []
    for tree, found in beside(resolved, taking_out, create):
        answers.append(found)
        assert b"guard" not in (tree.read(MIRROR) or b"")
    assert ConflictError in answers


def test_a_commit_beside_a_commit_is_made_after_it_or_refused(tmp_path: Path) -> None:
    refusals: set[str] = set()

    def committed(tree: CheckoutTree, name: str) -> None:
        try:
            api.commit(tree, load(), (name,))
        except TreeError as error:
            refusals.add(str(error).replace(str(tree.root), "TREE").partition(" (process")[0])

    fork = committing(checked_in(tmp_path / "fork"))
    first, second = (partial(committed, name=name) for name in ("t-guard", "t-stop"))
    for tree, _ in beside(first, second, lambda at: copied(fork, tmp_path / str(at))):
        api.commit(tree, load())
        subjects = git(tree.root, "log", "--format=%s").splitlines()
        assert sorted(subjects) == ["As upstream has it", "Toy t-flag", "Toy t-guard", "Toy t-stop"]
        assert status(tree) == {"applied"}
        assert git(tree.root, "status", "--porcelain") == ""
    assert refusals == {"another patchkit"}


def test_a_patch_that_is_required_and_reverted_between_the_plan_and_the_lock_is_noticed(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.apply(tree, load(), ("t-flag",))
    remaining = [revert]

    def reverting(tree: CheckoutTree) -> object:
        while remaining:
            remaining.pop()(tree)
        return locked(tree)

    monkeypatch.setattr(applying, "locked", reverting)
    with pytest.raises(TreeError, match=r"was changed while patchkit was running: try again\.$"):
        api.apply(tree, load(), ("t-stop",))
    assert status(tree) == {"pending"}
    api.apply(tree, load(), ("t-stop", "t-guard"))
    assert status(tree) == {"applied"}


def test_a_search_is_another_one_after_a_save_of_a_file_that_nobody_read(tree: CheckoutTree) -> None:
    files = [tree.package / MIRROR, tree.package / "outside.py"]
    files[1].write_text("")
    for file in files:
        read = ReadTree(tree.root, tree.package)
        assert read.containing("saved") == []
        assert read.is_unchanged
        file.write_bytes(file.read_bytes() + b"# saved\n")
        assert not read.is_unchanged
        file.write_text("")


def test_a_tree_that_others_keep_writing_to_is_named(tree: CheckoutTree) -> None:
    with pytest.raises(TreeError, match=r"was changed while patchkit was running: try again\.$"):
        read_consistently(tree, lambda read: apply(read) if status(read) == {"pending"} else revert(read))


def test_a_failure_in_a_tree_that_nobody_writes_to_is_its_own(tree: CheckoutTree) -> None:
    calls = []

    def failing(read: CheckoutTree) -> None:
        calls.append(True)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        read_consistently(tree, failing)
    assert calls == [True]


def test_a_failure_between_two_writes_is_none(tree: CheckoutTree) -> None:
    def failing_once(read: CheckoutTree) -> object:
        if status(read) == {"pending"}:
            apply(tree)
            raise KeyError("half")
        return status(tree)

    assert read_consistently(tree, failing_once) == {"applied"}


@pytest.mark.parametrize("before", [nothing, lambda tree: api.apply(tree, load(), ("t-flag",))])
def test_two_writes_that_undo_each_other_are_noticed(tree: CheckoutTree, before: Act) -> None:
    before(tree)
    store = Store(tree.package)
    os.utime(store.path if store.path.exists() else tree.package, (0, 0))
    generation = store.generation
    api.apply(tree, load(), ("t-stop",))
    api.revert(tree, load(), ("t-stop",))
    if before is nothing:
        revert(tree)
        assert not store.path.exists()
    assert store.generation != generation
