"""A tree's content depends on the set of its patches, not on the order of applying and reverting them."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ruff.__main__ import find_ruff_bin
from support.repositories import committing, copied
from support.sweeps import crossed
from support.toys import (
    ABRUPT,
    CRLF,
    MIRROR,
    SOURCES,
    attribute,
    checked_in,
    edit,
    everything,
    git,
    new_file_edit,
    rewriting,
    statement,
    toy,
    write_package,
)

from patchkit import api
from patchkit.patchset.select import PatchSet
from patchkit.plan.status import State
from patchkit.series.worktree import RefusedCommitError
from patchkit.transaction.revert import recorded
from patchkit.transaction.revert_plan import RevertBlockedError
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree

IDS = ("z-last", "q-none", "m-twin", "a-twin", "k-none-too", "b-file", "g-method", "c-method", "e-import")


def method(name: str, imports: str = "") -> str:
    """Return the text of an edit that gives the mirror a method."""
    brought = f'\nimports = ["{imports}"]' if imports else ""
    return (
        f'[edit.{name}]\nkind = "method"\nwhy = "toy"\nat = "{MIRROR}::Mirror"\n'
        f"code = '''def {name}(self): return {name}_of(self)'''{brought}"
    )


PATCHES = PatchSet(
    (
        toy("z-last", statement("insert-after", "after", MIRROR, "depth = 1", "last()"), method("last")),
        toy("q-none", rewriting("none", f"{MIRROR}::Mirror", "copies = 0", "copies = None")),
        toy("m-twin", attribute(CRLF, "Backend", "needs_host = False"), method("twin")),
        toy(
            "a-twin", attribute(CRLF, "Backend", "needs_host = False"), attribute(ABRUPT, "Worker", "own = 1")
        ),
        toy(
            "k-none-too",
            rewriting("more", f"{MIRROR}::Mirror", "copies = None", "copies = None\nspares = None"),
            requires='["q-none"]',
        ),
        toy("b-file", new_file_edit("srt/fresh/new.py", "made = 1"), attribute(CRLF, "Backend", "made = 1")),
        toy("g-method", method("given"), statement("insert-before", "up", MIRROR, "depth = 1", "given()")),
        toy("c-method", method("called", "from toolbox import called_of")),
        toy(
            "e-import",
            method("even", "from toolbox import even_of"),
            statement("insert-after", "down", MIRROR, "depth = 1", "even()"),
        ),
    ),
    "toys",
)

TWINS = PatchSet((*PATCHES, toy("own-twin", attribute(CRLF, "Backend", "needs_host = False"))), "toys")


@cache
def made_at_once(ids: frozenset[str]) -> dict[str, tuple[int, bytes]]:
    with tempfile.TemporaryDirectory() as folder:
        tree = open_tree(write_package(Path(folder) / "sglang"))
        if ids:
            api.apply(tree, PATCHES, tuple(ids))
            assert set(recorded(tree)) == ids
        return code(tree.package)


def code(package: Path) -> dict[str, tuple[int, bytes]]:
    return {name: known for name, known in everything(package).items() if not name.startswith(".patchkit")}


def dependents(ids: set[str]) -> set[str]:
    """Return patches with those that cannot stay without them."""
    return ids | {patch.id for patch in PATCHES if ids & set(patch.requires)}


one = st.sampled_from(IDS)
steps = st.lists(
    st.tuples(st.sampled_from(["apply", "apply", "revert"]), st.sets(one, min_size=1, max_size=3))
)


@settings(max_examples=30, deadline=None)
@given(steps=steps)
@example(steps=[("apply", {"g-method"}), ("apply", {"z-last"})])
@example(steps=[("apply", {"g-method"}), ("apply", {"z-last"}), ("revert", {"g-method"})])
@example(steps=[("apply", {"m-twin"}), ("apply", {"a-twin"}), ("revert", {"m-twin"})])
@example(steps=[("apply", {"a-twin", "m-twin"}), ("revert", {"m-twin"})])
@example(steps=[("apply", {"e-import"}), ("apply", {"c-method"}), ("revert", {"e-import"})])
def test_tree_is_what_its_patches_make_at_once_however_they_came_and_went(
    steps: list[tuple[str, set[str]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = open_tree(write_package(Path(folder) / "sglang"))
        for act, ids in steps:
            before = frozenset(recorded(tree))
            if act == "apply":
                api.apply(tree, PATCHES, tuple(ids))
                assert frozenset(recorded(tree)) == before | {p.id for p in PATCHES.select(tuple(ids))}
            else:
                reverted = dependents(ids & before)
                if reverted:
                    api.revert(tree, PATCHES, tuple(reverted & before))
            assert code(tree.package) == made_at_once(frozenset(recorded(tree)))


def fork_in(folder: Path) -> CheckoutTree:
    """Return a checkout with everything committed, in which git knows who commits."""
    return committing(checked_in(folder))


def in_place(tree: CheckoutTree) -> set[str]:
    return {status.patch.id for status in api.status(tree, PATCHES) if status.state is State.APPLIED}


commits = st.lists(
    st.tuples(st.sampled_from(["commit", "commit", "revert"]), st.sets(one, min_size=1, max_size=3)),
    min_size=2,
    max_size=5,
)


@settings(max_examples=6, deadline=None)
@given(steps=commits)
@example(steps=[("commit", {"g-method"}), ("commit", {"z-last"}), ("revert", {"g-method"})])
@example(steps=[("commit", {"z-last"}), ("commit", {"g-method"}), ("revert", {"g-method"})])
@example(steps=[("commit", {"a-twin"}), ("commit", {"m-twin"}), ("revert", {"a-twin"})])
@example(steps=[("commit", {"a-twin", "m-twin"}), ("revert", {"m-twin"})])
def test_commits_are_what_their_patches_make_at_once_however_they_came_and_went(
    steps: list[tuple[str, set[str]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = fork_in(Path(folder))
        for act, ids in steps:
            before = frozenset(recorded(tree))
            if act == "commit":
                api.commit(tree, PATCHES, tuple(ids))
                assert frozenset(recorded(tree)) == before | {p.id for p in PATCHES.select(tuple(ids))}
            elif reverted := dependents(ids & before) & before:
                api.revert(tree, PATCHES, tuple(reverted))
                git(tree.root, "add", "--all", ".")
                git(tree.root, "commit", "-qm", "Taken back", "--allow-empty")
            assert git(tree.root, "status", "--porcelain") == ""
            assert code(tree.package) == made_at_once(frozenset(recorded(tree)))


Committed = Callable[..., "CheckoutTree"]
PAIRS = [("z-last", "g-method"), ("m-twin", "a-twin"), ("own-twin", "m-twin"), ("q-none", "e-import")]


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Committed:
    """Return a function that makes a checkout in which patches are committed one by one, as a new folder."""
    place = tmp_path_factory.mktemp("committed")

    @cache
    def made(*ids: str) -> CheckoutTree:
        folder = place / (" ".join(ids) or "none")
        if not ids:
            return fork_in(folder)
        tree = copied(made(*ids[:-1]), folder)
        api.commit(tree, TWINS, ids[-1:])
        return tree

    return lambda folder, *ids: copied(made(*ids), folder)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_one_commit_and_then_another_is_the_tree_of_the_other_and_then_the_one(
    one: str, other: str, tmp_path: Path, committed: Committed
) -> None:
    forth, back = committed(tmp_path / "a", one, other), committed(tmp_path / "b", other, one)
    assert git(forth.root, "rev-parse", "HEAD:python") == git(back.root, "rev-parse", "HEAD:python")
    assert set(recorded(forth)) == set(recorded(back)) == {one, other}


@pytest.mark.parametrize("pair", [*PAIRS, *((other, one) for one, other in PAIRS)])
@pytest.mark.parametrize("reverted", [0, 1])
def test_either_of_two_commits_is_reverted_and_status_is_true(
    pair: tuple[str, str], reverted: int, tmp_path: Path, committed: Committed
) -> None:
    tree, alone = committed(tmp_path / "both", *pair), committed(tmp_path / "alone", pair[1 - reverted])
    api.revert(tree, TWINS, (pair[reverted],))
    assert code(tree.package) == code(alone.package)
    assert in_place(tree) == in_place(alone)
    assert recorded(tree) == (pair[1 - reverted],)
    api.revert(tree, TWINS)
    assert code(tree.package) == made_at_once(frozenset())


@pytest.mark.parametrize(
    "pair", [*PAIRS, ("g-method", "z-last"), ("a-twin", "m-twin"), ("e-import", "q-none")]
)
def test_commit_that_git_reverted_comes_again_and_goes_with_the_rest(
    pair: tuple[str, str], tmp_path: Path, committed: Committed
) -> None:
    tree, alone = committed(tmp_path / "both", *pair), committed(tmp_path / "alone", pair[0])
    both = code(tree.package)
    git(tree.root, "revert", "--no-edit", "HEAD")
    assert code(tree.package) == code(alone.package)
    assert in_place(tree) == in_place(alone)
    api.commit(tree, TWINS, (pair[1],))
    assert code(tree.package) == both
    git(tree.root, "revert", "--no-edit", "HEAD")
    assert in_place(tree) == in_place(alone)
    api.revert(tree, TWINS, (pair[0],))
    assert in_place(tree) == set()
    api.revert(tree, TWINS)
    assert code(tree.package) == made_at_once(frozenset())


def test_older_commit_that_git_reverted_is_gone_for_status_and_the_other_is_reverted(
    tmp_path: Path, committed: Committed
) -> None:
    tree, alone = committed(tmp_path / "both", "g-method", "a-twin"), committed(tmp_path / "alone", "a-twin")
    git(tree.root, "revert", "--no-edit", "HEAD~1")
    assert code(tree.package) == code(alone.package)
    assert in_place(tree) == in_place(alone)
    api.revert(tree, TWINS, ("a-twin",))
    assert code(tree.package) == made_at_once(frozenset())


def test_commit_of_which_a_person_undid_a_file_is_reverted_in_the_others(
    tmp_path: Path, committed: Committed
) -> None:
    tree = committed(tmp_path / "fork", "g-method", "m-twin")
    (tree.package / CRLF).write_bytes(SOURCES[CRLF])
    edit(tree, MIRROR, b"return self.copies", b"return self.copies + 1")
    api.revert(tree, TWINS, ("m-twin",))
    assert recorded(tree) == ("g-method",)
    assert b"twin" not in (tree.read(MIRROR) or b"")
    assert b"copies + 1" in (tree.read(MIRROR) or b"")


def test_hook_that_refuses_a_commit_leaves_what_was_committed_before(
    tmp_path: Path, committed: Committed
) -> None:
    tree = committed(tmp_path / "fork", "g-method")
    before = code(tree.package)
    hook = tree.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(RefusedCommitError, match="z-last"):
        api.commit(tree, TWINS, ("z-last",))
    assert (code(tree.package), recorded(tree)) == (before, ("g-method",))
    assert git(tree.root, "status", "--porcelain") == ""


EDITS = {
    "above": (b"class Mirror:", b"# mine\nclass Mirror:"),
    "header": (b"class Mirror:", b"class Mirror(object):"),
    "in a function": (b"return self.copies", b"return self.copies + 1"),
    "comment": (b"    def host(self):\n", b"    def host(self):\n        # mine\n"),
    "below": (b"depth = 1\n", b"depth = 1\n\n\nmine = 1\n"),
}


@settings(max_examples=30, deadline=None)
@given(
    applied=st.lists(one, unique=True, min_size=1, max_size=4),
    edited=st.integers(0, 3),
    place=st.sampled_from(list(EDITS)),
    goes=st.permutations(IDS),
)
@example(applied=["g-method", "e-import"], edited=9, place="above", goes=["e-import", "g-method"])
@example(
    applied=["m-twin", "c-method", "g-method"],
    edited=1,
    place="header",
    goes=["c-method", "m-twin", "g-method"],
)
@example(applied=["k-none-too"], edited=9, place="in a function", goes=["k-none-too", "q-none"])
@example(
    applied=["z-last", "q-none", "b-file", "m-twin"],
    edited=2,
    place="above",
    goes=["z-last", "q-none", "m-twin", "b-file"],
)
@example(
    applied=["m-twin", "k-none-too", "a-twin", "b-file"],
    edited=2,
    place="above",
    goes=["q-none", "m-twin", "a-twin", "k-none-too", "b-file"],
)
@example(
    applied=["k-none-too", "g-method", "m-twin", "a-twin"],
    edited=3,
    place="above",
    goes=["m-twin", "q-none", "a-twin", "k-none-too", "g-method"],
)
def test_patches_gone_one_by_one_leave_a_person_s_edit_and_not_a_byte_more(
    applied: list[str], edited: int, place: str, goes: list[str]
) -> None:
    def edit_it(text: bytes) -> bytes:
        old, new = EDITS[place]
        assert text.count(old) == 1
        return text.replace(old, new)

    with tempfile.TemporaryDirectory() as folder:
        tree = open_tree(write_package(Path(folder) / "sglang"))
        mirror = tree.package / MIRROR
        for index, name in enumerate(applied):
            if index == edited:
                mirror.write_bytes(edit_it(mirror.read_bytes()))
            api.apply(tree, PATCHES, (name,))
        if edited >= len(applied):
            mirror.write_bytes(edit_it(mirror.read_bytes()))
        for name in goes:
            if reverted := dependents({name} & set(recorded(tree))) & set(recorded(tree)):
                try:
                    api.revert(tree, PATCHES, tuple(reverted))
                except RevertBlockedError as error:
                    # After a person's edit a twin is applied alone, and its shared edit is the other's.
                    _, _, together = error.advice.partition("revert them together: patchkit revert ")
                    assert reverted < set(together.split()) <= {*reverted, "a-twin", "m-twin"}
                    api.revert(tree, PATCHES, tuple(together.split()))
        assert recorded(tree) == ()
        left = {file: text for file, (_, text) in code(tree.package).items() if file in SOURCES}
        assert left == SOURCES | {MIRROR: edit_it(SOURCES[MIRROR])}


def test_patch_that_comes_after_a_person_s_edit_leaves_that_edit(tree: CheckoutTree) -> None:
    api.apply(tree, PATCHES, ("g-method",))
    edit(tree, MIRROR, b"class Mirror:", b"class Mirror(object):")
    api.apply(tree, PATCHES, ("z-last",))
    assert b"class Mirror(object):" in (tree.read(MIRROR) or b"")
    api.revert(tree, PATCHES)
    left, wanted = tree.read(MIRROR) or b"", SOURCES[MIRROR].replace(b"Mirror:", b"Mirror(object):")
    assert left.split() == wanted.split()


def test_patch_comes_later_where_contents_of_the_first_were_lost(tree: CheckoutTree) -> None:
    api.apply(tree, PATCHES, ("g-method",))
    for path in (tree.package / ".patchkit" / "objects").iterdir():
        path.unlink()
    api.apply(tree, PATCHES, ("z-last",))
    assert recorded(tree) == ("g-method", "z-last")


def test_patch_comes_later_where_the_first_is_not_at_hand(tree: CheckoutTree) -> None:
    api.apply(tree, PATCHES, ("g-method",))
    api.apply(tree, PatchSet((PATCHES.get("z-last"),), "toys"), ("z-last",))
    assert recorded(tree) == ("g-method", "z-last")


def test_diff_shows_what_apply_then_writes(tree: CheckoutTree) -> None:
    api.apply(tree, PATCHES, ("g-method",))
    planned = {change.file: change.after for change in api.diff(tree, PATCHES, ("z-last",)).changes}
    api.apply(tree, PATCHES, ("z-last",))
    assert {file: tree.read(file) for file in planned} == planned


def test_a_patch_that_another_had_made_whole_is_recorded_and_changes_no_file(tree: CheckoutTree) -> None:
    api.apply(tree, TWINS, ("m-twin",))
    assert api.apply(tree, TWINS, ("own-twin",)).files == ()
    assert recorded(tree) == ("m-twin", "own-twin")
    api.revert(tree, TWINS, ("m-twin",))
    assert b"own-twin: toy\r\n    needs_host = False" in (tree.read(CRLF) or b"")


def formatted(tree: CheckoutTree) -> dict[str, bytes]:
    """Run a formatter that sorts imports and breaks lines early over the tree, and return its files."""
    options = ("--isolated", "--no-cache", "--quiet", "--config", "line-length = 24")
    for command in (("check", "--select", "I", "--fix"), ("format",)):
        # Conflicts are reported; they do not matter here.
        subprocess.run((find_ruff_bin(), *command, *options, tree.package), check=False)
    return {file: text for file, (_, text) in code(tree.package).items() if file in SOURCES}


@pytest.fixture(scope="module")
def rewritten(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], CheckoutTree]:
    """Return a function that makes, once each, a checkout whose patched files a formatter rewrote."""
    place = tmp_path_factory.mktemp("rewritten")

    @cache
    def made(kept: str) -> CheckoutTree:
        tree = fork_in(place / kept)
        if kept == "committed":
            api.commit(tree, PATCHES, IDS)
        else:
            api.apply(tree, PATCHES, IDS)
        formatted(tree)
        if kept == "committed":
            git(tree.root, "commit", "-qam", "Formatted")
        return tree

    return made


@pytest.mark.parametrize(("name", "kept"), crossed(IDS, ["committed", "recorded"], one_in=2))
def test_one_patch_is_reverted_in_files_that_a_formatter_rewrote(
    name: str, kept: str, tmp_path: Path, rewritten: Callable[[str], CheckoutTree]
) -> None:
    tree, alone = copied(rewritten(kept), tmp_path / "fork"), fork_in(tmp_path / "alone")
    reverted = api.revert(tree, PATCHES, tuple(dependents({name}))).patches
    api.apply(alone, PATCHES, tuple(set(IDS).difference(reverted)))
    assert formatted(tree) == formatted(alone)
    assert in_place(tree) == in_place(alone)
