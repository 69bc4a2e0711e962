"""An uncommitted port is whole, and is reverted by its name, after a stash and beside patches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.releases import run
from support.repositories import committing, copied, patched_states, whole
from support.toys import ABRUPT, MIRROR, SOURCES, add_patch, attribute, checked_in, edit, everything, git

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

FRESH = "srt/managers/fresh/new.py"
LATER = (b"        return self.copies\n", b"        self.asked = True\n        return self.copies\n")


@pytest.fixture
def fork(checkout: CheckoutTree, patch_folder: Path) -> CheckoutTree:
    add_patch(patch_folder, "t-far", attribute(ABRUPT, "Worker", "far = 1"))
    return committing(checkout)


@pytest.fixture
def theirs(tmp_path: Path) -> CheckoutTree:
    """A commit that changes a file and creates another."""
    tree = committing(checked_in(tmp_path / "theirs"))
    edit(tree, MIRROR, *LATER)
    (tree.package / FRESH).parent.mkdir()
    (tree.package / FRESH).write_bytes(b"fresh = 1\n")
    git(tree.root, "add", ".")
    git(tree.root, "commit", "-qm", "Something of theirs (#77)")
    return tree


@pytest.fixture(params=[True, False], ids=["patched", "unpatched"])
def stashed(theirs: CheckoutTree, fork: CheckoutTree, request: pytest.FixtureRequest) -> CheckoutTree:
    """A fork, with or without a committed patch, in which the port was stashed."""
    if request.param:
        run("apply", fork.root, "t-flag", "--commit")
    return port_and_stash(theirs, fork)


def port_and_stash(theirs: CheckoutTree, fork: CheckoutTree) -> CheckoutTree:
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root)
    git(fork.root, "stash", "--include-untracked")
    assert git(fork.root, "status", "--porcelain") == ""
    return fork


def pop_and_revert(tree: CheckoutTree) -> None:
    """Take the port out of the stash, and revert it: the status is true, and the other code stays."""
    before, states = everything(tree.package / "srt"), patched_states(tree)
    git(tree.root, "stash", "pop")
    assert (tree.read(MIRROR) or b"").count(b"self.asked = True") == 1
    assert tree.read(FRESH) == b"fresh = 1\n"
    assert patched_states(tree) == states
    assert run("revert", tree.root, "77").output.startswith("Reverted: 77.\n\nChanged 2 files.")
    assert everything(tree.package / "srt") == before
    assert patched_states(tree) == states


@pytest.mark.parametrize(
    "words", [("status",), ("diff",), ("apply", "--dry-run"), ("apply", "--continue")], ids=" ".join
)
def test_a_stashed_port_after_a_command_that_changes_nothing(
    stashed: CheckoutTree, words: tuple[str, ...]
) -> None:
    run(words[0], stashed.root, *words[1:])
    pop_and_revert(stashed)


@pytest.mark.parametrize("name", ["t-guard", "t-stop"])
def test_a_stashed_port_after_patches_of_the_same_file_were_committed(
    stashed: CheckoutTree, name: str
) -> None:
    run("apply", stashed.root, name, "--commit")
    pop_and_revert(stashed)
    assert git(stashed.root, "status", "--porcelain", "python") == ""


def test_a_stashed_port_after_a_patch_of_another_file_was_applied(stashed: CheckoutTree) -> None:
    run("apply", stashed.root, "t-far")
    pop_and_revert(stashed)


def test_a_stashed_port_after_a_patch_of_another_file_was_applied_and_reverted(stashed: CheckoutTree) -> None:
    run("apply", stashed.root, "t-far")
    run("revert", stashed.root, "t-far")
    pop_and_revert(stashed)


def test_a_stashed_port_after_a_revert_that_found_nothing(theirs: CheckoutTree, fork: CheckoutTree) -> None:
    run("apply", fork.root, "t-flag", "--commit")
    port_and_stash(theirs, fork)
    assert "no patch is called '77'" in run("revert", fork.root, "77", code=2).output
    pop_and_revert(fork)


def test_of_a_port_that_a_stash_has_in_part_the_record_stays_whole(
    theirs: CheckoutTree, fork: CheckoutTree
) -> None:
    """A plain stash leaves new files where they are."""
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root)
    git(fork.root, "stash")
    assert (fork.read(FRESH), fork.read(MIRROR)) == (b"fresh = 1\n", SOURCES[MIRROR])
    assert f"Ported: 77 (not in {MIRROR})" in run("status", fork.root).output
    answer = json.loads(run("status", fork.root, "--json").output)
    assert (answer["ports"], answer["absent_files"]) == (["77"], {"77": [MIRROR]})
    run("apply", fork.root, "t-far", "--commit")
    git(fork.root, "stash", "pop")
    assert run("revert", fork.root, "77").output.startswith("Reverted: 77.\n\nChanged 2 files.")
    assert (fork.read(FRESH), fork.read(MIRROR)) == (None, SOURCES[MIRROR])


def test_of_two_ports_of_one_series_the_files_are_told_apart(
    theirs: CheckoutTree, fork: CheckoutTree
) -> None:
    edit(theirs, ABRUPT, b"class Worker:\n", b"class Worker:\n    later = 1\n")
    git(theirs.root, "commit", "-qam", "Something later of theirs (#78)")
    run("port", "HEAD~2..HEAD", "--repo", theirs.root, "--onto", fork.root)
    git(fork.root, "checkout", "--", str(fork.package / ABRUPT))
    assert "78" not in run("status", fork.root).output.partition("Ported: ")[2].partition("\n")[0]
    git(fork.root, "checkout", "--", str(fork.package / MIRROR))
    assert f"Ported: 77 (not in {MIRROR})" in run("status", fork.root).output


def test_another_change_is_not_recorded_under_the_name_of_a_stashed_one(
    theirs: CheckoutTree, fork: CheckoutTree
) -> None:
    port = ("port", "HEAD", "--repo", theirs.root, "--onto", fork.root)
    run(*port)
    git(fork.root, "stash", "--include-untracked", "--", "python")
    assert "Would change 2 files." in run(*port, "--dry-run").output
    edit(theirs, ABRUPT, b"class Worker:\n", b"class Worker:\n    more = 1\n")
    git(theirs.root, "commit", "-qam", "More of theirs (#77)")
    before = everything(fork.root)
    refusal = run(*port, code=4).output
    assert "another change is recorded as 77, and not in the tree" in " ".join(refusal.split())
    assert everything(fork.root) == before


@pytest.fixture(params=["the same file", "another file"])
def beside(theirs: CheckoutTree, fork: CheckoutTree, request: pytest.FixtureRequest) -> CheckoutTree:
    """A fork with a committed patch and an uncommitted port."""
    name = "t-flag" if request.param == "the same file" else "t-far"
    run("apply", fork.root, name, "--commit")
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root)
    return fork


def test_beside_a_committed_patch_that_is_reverted(theirs: CheckoutTree, fork: CheckoutTree) -> None:
    before = everything(fork.package / "srt")
    run("apply", fork.root, "t-flag", "--commit")
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root)
    assert run("revert", fork.root, "t-flag").output.startswith("Reverted: t-flag.\n")
    assert fork.read(MIRROR) == SOURCES[MIRROR].replace(*LATER)
    assert run("revert", fork.root, "77").output.startswith("Reverted: 77.\n\nChanged 2 files.")
    assert everything(fork.package / "srt") == before


def test_without_a_name_it_is_reverted_with_the_committed_patch(beside: CheckoutTree) -> None:
    output = run("revert", beside.root).output
    assert output.startswith(
        ("Reverted: t-flag, 77.\n\nChanged 3 files.", "Reverted: t-far, 77.\n\nChanged 3 files.")
    )
    assert {file: beside.read(file) for file in SOURCES} == SOURCES
    assert beside.read(FRESH) is None
    assert run("revert", beside.root).output == "Nothing to revert.\n"


def test_without_a_name_it_is_reverted_after_the_patch_beside_it(beside: CheckoutTree) -> None:
    name = "t-flag" if b"patchkit t-flag" in (beside.read(MIRROR) or b"") else "t-far"
    run("revert", beside.root, name)
    assert run("revert", beside.root).output.startswith("Reverted: 77.\n\nChanged 2 files.")
    assert {file: beside.read(file) for file in SOURCES} == SOURCES
    assert run("revert", beside.root).output == "Nothing to revert.\n"


def test_without_a_name_it_is_reverted_with_a_patch_that_was_committed_after_it(
    theirs: CheckoutTree, fork: CheckoutTree
) -> None:
    before = everything(fork.package / "srt")
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root)
    run("apply", fork.root, "t-far", "--commit")
    assert run("revert", fork.root).output.startswith("Reverted: t-far, 77.\n\nChanged 3 files.")
    assert everything(fork.package / "srt") == before


def test_without_a_name_the_reason_is_that_of_the_committed_patch_that_was_edited(
    theirs: CheckoutTree, fork: CheckoutTree
) -> None:
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root)
    run("apply", fork.root, "t-far", "--commit")
    edit(fork, ABRUPT, b"far = 1", b"far = 2")
    before = everything(fork.root)
    assert "edited after" in run("revert", fork.root, code=3).output
    assert everything(fork.root) == before
    output = run("revert", fork.root, "--keep-going", code=1).output
    assert output.startswith("Reverted: 77.\n! t-far: ")
    assert fork.read(MIRROR) == SOURCES[MIRROR]


@pytest.mark.parametrize("order", ["patch first", "port first"])
def test_without_a_name_a_port_that_was_edited_stays_and_the_output_shows_how_to_revert_it(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path, order: str
) -> None:
    steps = [
        ("apply", fork.root, "t-far", "--commit"),
        ("port", "HEAD", "--repo", theirs.root, "--onto", fork.root),
    ]
    for step in steps if order == "patch first" else reversed(steps):
        run(*step)
    edit(fork, MIRROR, b"asked = True", b"asked = None")
    edited = fork.read(MIRROR)
    again = copied(fork, tmp_path / "again")
    assert json.loads(run("revert", again.root, "--json", code=1).stdout)["ports"] == ["77"]
    output = " ".join(run("revert", fork.root, code=1).output.split())
    stays = "77 was ported, conflicts with other changes, and stays."
    assert output.startswith(f"Reverted: t-far. Changed 1 file. {stays}")
    assert f"patchkit revert {fork.root} 77 reverts what was ported" in output
    assert (fork.read(MIRROR), fork.read(ABRUPT)) == (edited, SOURCES[ABRUPT])
    assert "edited after" in run("revert", fork.root, "77", code=3).output
    edit(fork, MIRROR, b"asked = None", b"asked = True")
    run("revert", fork.root, "77")
    assert fork.read(MIRROR) == SOURCES[MIRROR]


def test_without_a_name_of_two_ports_the_one_that_was_edited_stays(
    theirs: CheckoutTree, fork: CheckoutTree
) -> None:
    edit(theirs, ABRUPT, b"class Worker:\n", b"class Worker:\n    theirs = 1\n")
    git(theirs.root, "commit", "-qam", "Another thing of theirs (#78)")
    run("apply", fork.root, "t-far", "--commit")
    for commit in ("HEAD~1", "HEAD"):
        run("port", commit, "--repo", theirs.root, "--onto", fork.root)
    edit(fork, MIRROR, b"asked = True", b"asked = None")
    edited = fork.read(MIRROR)
    output = " ".join(run("revert", fork.root, code=1).output.split())
    assert output.startswith("Reverted: t-far, 78. Changed 1 file. 77 was ported, conflicts with")
    assert (fork.read(MIRROR), fork.read(ABRUPT)) == (edited, SOURCES[ABRUPT])


def test_without_a_name_and_alone_a_port_that_was_edited_is_refused(
    theirs: CheckoutTree, fork: CheckoutTree
) -> None:
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root)
    edit(fork, MIRROR, b"asked = True", b"asked = None")
    before = everything(fork.root)
    assert "edited after" in run("revert", fork.root, code=3).output
    answer = json.loads(run("revert", fork.root, "--keep-going", "--json", code=1).stdout)
    assert [each["patch"] for each in answer["left"]] == ["77"]
    assert "ports" not in answer
    assert everything(fork.root) == before


def test_without_a_name_one_that_is_in_a_stash_is_reverted_when_it_is_back(stashed: CheckoutTree) -> None:
    run("revert", stashed.root)
    git(stashed.root, "commit", "--allow-empty", "-qam", "Reverted")
    git(stashed.root, "stash", "pop")
    assert FRESH in str(everything(stashed.package))
    assert run("revert", stashed.root).output.startswith("Reverted: 77.\n\nChanged 2 files.")
    assert {file: stashed.read(file) for file in SOURCES} == SOURCES


def test_without_a_name_one_that_a_person_committed_stays(beside: CheckoutTree) -> None:
    git(beside.root, "add", ".")
    git(beside.root, "commit", "-qm", "Own")
    output = " ".join(run("revert", beside.root).output.split())
    assert output.startswith("Reverted: t-f")
    assert "77 was ported and committed, and stays." in output
    assert beside.read(MIRROR) == SOURCES[MIRROR].replace(*LATER)
    run("revert", beside.root, "77")
    assert beside.read(MIRROR) == SOURCES[MIRROR]


@pytest.mark.parametrize(
    "place", [(ABRUPT, "Worker"), (MIRROR, "Mirror")], ids=["another file", "the same file"]
)
def test_beside_a_committed_patch_and_one_that_is_reverted(
    theirs: CheckoutTree, fork: CheckoutTree, patch_folder: Path, place: tuple[str, str]
) -> None:
    add_patch(patch_folder, "t-far", attribute(*place, "far = 1"))
    run("apply", fork.root, "t-flag", "--commit")
    before = everything(fork.package / "srt")
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root)
    run("apply", fork.root, "t-far")
    run("revert", fork.root, "t-far")
    assert run("revert", fork.root, "77").output.startswith("Reverted: 77.\n\nChanged 2 files.")
    assert everything(fork.package / "srt") == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\n\ndepth = 1\n", b""),
        (b"class Mirror:\n", b'"""A module."""\n\n\nclass Mirror:\n'),
        (b"depth = 1\n", b"depth = 1\ndepth = 1\ndepth = 1\ndepth = 1\ndepth = 1\n"),
    ],
    ids=["it deletes the last lines", "it adds the first line", "it adds equal lines"],
)
def test_without_a_name_an_uncommitted_one_is_not_taken_for_a_committed_one(
    tmp_path: Path, fork: CheckoutTree, old: bytes, new: bytes
) -> None:
    theirs = committing(checked_in(tmp_path / "theirs"))
    edit(theirs, MIRROR, old, new)
    git(theirs.root, "commit", "-qam", "Something of theirs (#77)")
    run("apply", fork.root, "t-far", "--commit")
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root)
    assert fork.read(MIRROR) != SOURCES[MIRROR]
    assert run("revert", fork.root).output.startswith("Reverted: t-far, 77.\n")
    assert fork.read(MIRROR) == SOURCES[MIRROR]


@pytest.mark.parametrize("words", [("77",), ()], ids=["named", "all"])
def test_a_revert_with_a_commit_needs_a_port_that_is_committed(
    theirs: CheckoutTree, fork: CheckoutTree, words: tuple[str, ...]
) -> None:
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root)
    before = whole(fork)
    output = run("revert", fork.root, *words, "--commit", code=4).output
    assert output == (
        "error: applied patches are not committed\n  --> 77\n"
        "help: leave out --commit, or commit them with git first\n"
    )
    assert whole(fork) == before
