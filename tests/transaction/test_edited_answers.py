"""Every command answers alike of patched code that a person changed, and nothing of theirs or of the record is lost."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.releases import run
from support.repositories import committing
from support.sweeps import crossed
from support.toys import (
    ABRUPT,
    CRLF,
    MIRROR,
    SOURCES,
    add_patch,
    attribute,
    checked_in,
    edit,
    everything,
    git,
    statement,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("cached_git")
MOVED = "srt/managers/moved.py"
WRITTEN = b"        first(self)\n        second(self)\n"
CODE = statement(
    "insert-before", "calls", f"{MIRROR}::Mirror.host", "return $value", "first(self)\nsecond(self)"
)

KINDS = (
    "a default patch",
    "a committed default patch",
    "an opt-in patch",
    "a patch of one's own",
    "a patch that is not loaded",
    "a port",
    "a committed port",
    "a port that a person committed",
)


class Patched(NamedTuple):
    """A fork with a change, and besides it a committed patch of another file; ``options`` load its patch."""

    tree: CheckoutTree
    kind: str
    name: str
    options: tuple[object, ...] = ()

    @property
    def is_loaded(self) -> bool:
        return "patch" in self.kind and not self.kind.endswith("loaded")

    @property
    def record(self) -> Path:
        return self.tree.root / "patchkit.lock" / f"{self.name}.toml"

    def say(self, *words: object, code: int = 0) -> str:
        return " ".join(run(words[0], self.tree.root, *words[1:], *self.options, code=code).output.split())

    @property
    def state(self) -> str:
        """What ``status`` calls it; empty if it does not list it."""
        patches = json.loads(run("status", self.tree.root, "--json", *self.options).stdout)["patches"]
        return next((patch["state"] for patch in patches if patch["id"] == self.name), "")


@pytest.fixture
def patched(request: pytest.FixtureRequest, tmp_path: Path, patch_folder: Path) -> Patched:
    kind: str = request.param
    shutil.rmtree(patch_folder)
    add_patch(patch_folder, "t-far", attribute(ABRUPT, "Worker", "far = 1"))
    fork = committing(checked_in(tmp_path / "fork"))
    run("apply", fork.root, "t-far", "--commit")
    committing_it = ("--commit",) if "a committed" in kind else ()
    if "port" not in kind:
        is_own = kind.endswith(("own", "loaded"))
        folder = tmp_path / "own" if is_own else patch_folder
        add_patch(folder, "t-near", CODE, **({"default": "false"} if "opt-in" in kind else {}))
        options = ("--patches", folder) if is_own else ()
        run("apply", fork.root, "t-near", *options, *committing_it)
        return Patched(fork, kind, "t-near", () if kind.endswith("loaded") else options)
    theirs = committing(checked_in(tmp_path / "theirs"))
    edit(theirs, MIRROR, b"        return self.copies\n", WRITTEN + b"        return self.copies\n")
    git(theirs.root, "commit", "-qam", "Something of theirs (#77)")
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root, *committing_it)
    if kind.endswith("committed"):
        git(fork.root, "add", ".")
        git(fork.root, "commit", "-qm", "Own")
    return Patched(fork, kind, "77")


def one_line_edited(tree: CheckoutTree) -> None:
    edit(tree, MIRROR, b"second(self)", b"mine(self)")


def all_lines_edited(tree: CheckoutTree) -> None:
    text = (tree.read(MIRROR) or b"").splitlines(keepends=True)
    (tree.package / MIRROR).write_bytes(b"".join(line for line in text if b"patchkit" not in line))
    edit(tree, MIRROR, WRITTEN, b"        mine(self)\n        mine_too(self)\n")


def all_lines_edited_in_a_renamed_function(tree: CheckoutTree) -> None:
    all_lines_edited(tree)
    edit(tree, MIRROR, b"def host(", b"def hosted(")


def emptied(tree: CheckoutTree) -> None:
    (tree.package / MIRROR).write_bytes(b"")


def deleted(tree: CheckoutTree) -> None:
    (tree.package / MIRROR).unlink()


def its_class_deleted(tree: CheckoutTree) -> None:
    (tree.package / MIRROR).write_bytes(b"depth = 1\n")


EDITS: dict[Callable[[CheckoutTree], None], str] = {
    one_line_edited: "to take it back, restore the lines marked -",
    all_lines_edited: "to take it back, restore the lines marked -",
    all_lines_edited_in_a_renamed_function: "to take it back, restore the lines marked -",
    emptied: "the file, which patchkit changed, is empty: restore it",
    deleted: "the file, which patchkit changed, does not exist: restore it",
}
REFUSALS: dict[Callable[[CheckoutTree], None], str] = {
    one_line_edited: "code that patchkit wrote was edited after apply",
    all_lines_edited: "code that patchkit wrote was edited after apply",
    all_lines_edited_in_a_renamed_function: "code that patchkit wrote was edited after apply",
    emptied: "the file, which patchkit changed, is empty",
    deleted: "the file, which patchkit changed, does not exist",
}


@pytest.mark.parametrize(("patched", "act"), crossed(KINDS, EDITS, one_in=3), indirect=["patched"])
def test_what_a_person_edited_is_edited_in_every_answer(
    patched: Patched, act: Callable[[CheckoutTree], None]
) -> None:
    tree, name = patched.tree, patched.name
    act(tree)
    before = everything(tree.root)
    assert patched.state == "edited"
    assert EDITS[act] in patched.say("status")
    patched.say("status", "--check", *((name,) if "opt-in" in patched.kind else ()), code=1)
    assert f"{name}: " in patched.say("verify", code=1)
    assert REFUSALS[act] in patched.say("revert", name, code=3)
    if patched.is_loaded:
        assert EDITS[act] in patched.say("apply", name, code=3)
        assert EDITS[act] in patched.say("diff", name, code=3)
    patched.say("apply")
    assert everything(tree.root) == before
    there, record = tree.read(MIRROR), patched.record.read_bytes()
    patched.say(
        "revert", "--keep-going", code=0 if "port" in patched.kind and "committed" in patched.kind else 1
    )
    assert b"far" not in (tree.read(ABRUPT) or b"")
    assert (tree.read(MIRROR), patched.record.read_bytes()) == (there, record)
    assert patched.state == "edited"


@pytest.mark.parametrize("act", [emptied, deleted, all_lines_edited_in_a_renamed_function])
def test_an_edit_that_needs_no_place_is_edited_also_where_its_place_is_gone(
    checkout: CheckoutTree, patch_folder: Path, act: Callable[[CheckoutTree], None]
) -> None:
    shutil.rmtree(patch_folder)
    optional = f"{CODE}\noptional = 'the tree has no mirror'"
    add_patch(patch_folder, "t-near", optional, attribute(ABRUPT, "Worker", "far = 1"))
    run("apply", checkout.root)
    act(checkout)
    patched = Patched(checkout, "a default patch", "t-near")
    assert patched.state == "edited"
    for words, code in ((("status",), 0), (("apply",), 0), (("apply", "t-near"), 3), (("verify",), 1)):
        said = patched.say(*words, code=code)
        assert EDITS[act] in said
        assert "removing patchkit.lock/t-near.toml accepts the change" in said
    assert f"{REFUSALS[act]} --> {MIRROR}" in patched.say("revert", code=3)
    git(checkout.root, "add", ".")
    git(checkout.root, "commit", "-qm", "Own")
    assert patched.state == ("edited" if act in {emptied, deleted} else "applied")


@pytest.mark.parametrize("patched", ["a patch of one's own"], indirect=True)
def test_a_lost_file_of_which_nothing_is_recorded_is_named(patched: Patched) -> None:
    patched.record.unlink()
    emptied(patched.tree)
    assert patched.say("revert", "t-near") == "Nothing to revert."
    assert f"{MIRROR} is empty; restore it, for example with git restore" in patched.say("status")


@pytest.mark.parametrize("patched", [kind for kind in KINDS if "committed" not in kind], indirect=True)
def test_what_a_stash_took_away_is_gone_in_every_answer(patched: Patched) -> None:
    git(patched.tree.root, "stash")
    assert patched.record.exists()
    assert patched.state == ("pending" if patched.is_loaded else "")
    gone = f"Recorded, but not in the tree: {patched.name}. Unless a git stash has it, rm "
    assert gone in patched.say("status")
    assert patched.say("revert", patched.name).startswith(f"Nothing to revert. {gone}")
    if patched.is_loaded:
        patched.say("apply", patched.name)
        assert patched.state == "applied"
        assert patched.say("revert", patched.name).startswith(f"Reverted: {patched.name}.")


@pytest.mark.parametrize("patched", ["a port"], indirect=True)
def test_the_record_of_a_stashed_port_stays_while_others_are_written(patched: Patched) -> None:
    git(patched.tree.root, "stash")
    reverted = patched.say("revert")
    assert reverted.startswith("Reverted: t-far.")
    assert "Recorded, but not in the tree: 77." in reverted
    assert "git add patchkit.lock" not in reverted
    patched.say("apply", "t-far", "--allow-dirty")
    assert patched.record.exists()
    git(patched.tree.root, "stash", "pop")
    assert patched.say("revert").startswith("Reverted: t-far, 77.")
    assert patched.tree.read(MIRROR) == SOURCES[MIRROR]
    assert not patched.record.exists()


def test_after_a_checkout_of_every_file_the_answers_say_what_removes_the_record(
    checkout: CheckoutTree, patch_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("apply", checkout.root, "t-flag")
    git(checkout.root, "checkout", ".")
    monkeypatch.chdir(checkout.root)
    removing = "Unless a git stash has it, rm patchkit.lock/t-flag.toml removes the record."
    assert removing in " ".join(run("status").output.split())
    assert run("revert").output.startswith("Nothing to revert.")
    assert removing in " ".join(run("revert").output.split())
    (checkout.root / "patchkit.lock/t-flag.toml").unlink()
    assert git(checkout.root, "status", "--porcelain") == ""
    assert run("revert").output == "Nothing to revert.\n"
    assert "removes the record" not in run("status").output
    run("apply", "t-flag")
    assert "Recorded" not in run("revert").output
    assert git(checkout.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("patched", KINDS, indirect=True)
def test_what_a_person_deleted_with_its_class_is_gone_in_every_answer(patched: Patched) -> None:
    its_class_deleted(patched.tree)
    assert patched.state == ("conflict" if patched.is_loaded else "")
    patched.say("verify")
    assert patched.say("revert").startswith("Reverted: t-far. Changed 1 file.")
    assert patched.tree.read(MIRROR) == b"depth = 1\n"


@pytest.mark.parametrize("patched", KINDS, indirect=True)
def test_what_a_person_moved_with_its_file_is_there_and_its_record_is_kept(patched: Patched) -> None:
    git(patched.tree.package, "mv", MIRROR, MOVED)
    moved = patched.tree.read(MOVED)
    assert patched.state == ("applied" if patched.is_loaded else "edited")
    assert REFUSALS[deleted] in patched.say("revert", patched.name, code=3)
    patched.say(
        "revert", "--keep-going", code=0 if "port" in patched.kind and "committed" in patched.kind else 1
    )
    assert patched.record.exists()
    assert patched.tree.read(MOVED) == moved


@pytest.mark.parametrize("patched", KINDS, indirect=True)
def test_after_its_record_was_removed_the_code_alone_tells(patched: Patched) -> None:
    patched.record.unlink()
    if patched.is_loaded:
        assert patched.state == "applied"
        assert patched.say("revert", patched.name).startswith(f"Reverted: {patched.name}.")
    elif patched.kind == "a committed port":
        assert patched.say("revert", patched.name).startswith(f"Reverted: {patched.name}.")
    else:
        assert patched.state == ""
        assert "no patch is called" in patched.say("revert", patched.name, code=2)


@pytest.mark.parametrize("patched", ["a default patch", "a port"], indirect=True)
@pytest.mark.parametrize("act", [all_lines_edited, emptied])
def test_what_the_answers_say_to_type_accepts_an_edit(
    patched: Patched, act: Callable[[CheckoutTree], None]
) -> None:
    act(patched.tree)
    there = patched.tree.read(MIRROR)
    removing = f"removing patchkit.lock/{patched.name}.toml accepts the change"
    if removing in patched.say("status"):
        patched.record.unlink()
    else:
        patched.say("resolve", patched.name, "calls", "--accept")
    assert patched.state in {"", "applied", "conflict"}
    patched.say("verify")
    assert "77" not in patched.say("revert")
    assert patched.tree.read(MIRROR) == there


@pytest.mark.parametrize("patched", ["a patch of one's own"], indirect=True)
def test_an_accepted_edit_is_none_where_its_patch_is_not_loaded_either(patched: Patched) -> None:
    all_lines_edited(patched.tree)
    patched.say("resolve", patched.name, "calls", "--accept")
    assert patched.state == "applied"
    assert patched._replace(options=()).state == ""


@pytest.mark.parametrize("patched", ["a committed port", "a port that a person committed"], indirect=True)
@pytest.mark.parametrize("act", [one_line_edited, all_lines_edited])
def test_a_port_that_a_person_edited_is_not_made_again(
    patched: Patched, act: Callable[[CheckoutTree], None], tmp_path: Path
) -> None:
    act(patched.tree)
    git(patched.tree.root, "commit", "-qam", "Own")
    before = everything(patched.tree.root)
    again = run("port", "HEAD", "--repo", tmp_path / "theirs", "--onto", patched.tree.root).output
    assert "a person changed it in this tree" in again
    assert everything(patched.tree.root) == before


@pytest.mark.parametrize("patched", ["a committed port", "a port that a person committed"], indirect=True)
def test_a_change_of_a_ported_line_that_is_committed_too_is_the_forks_own(patched: Patched) -> None:
    one_line_edited(patched.tree)
    assert patched.state == "edited"
    git(patched.tree.root, "commit", "-qam", "Own")
    assert patched.state == ""
    patched.say("status", "--check")
    patched.say("verify")
    assert REFUSALS[one_line_edited] in patched.say("revert", patched.name, code=3)


OTHERS = b"        third(self)\n"


def test_code_of_upstreams_own_in_place_of_all_lines_of_a_patch_is_no_edit(
    checkout: CheckoutTree, patch_folder: Path
) -> None:
    shutil.rmtree(patch_folder)
    add_patch(patch_folder, "t-near", f"{CODE}\nalready = ['third($who)']")
    add_patch(patch_folder, "t-far", attribute(ABRUPT, "Worker", "far = 1"))
    fork = Patched(committing(checkout), "a default patch", "t-near")
    fork.say("apply", "--commit")
    text = (fork.tree.read(MIRROR) or b"").replace(b"        # patchkit t-near: toy\n" + WRITTEN, OTHERS)
    (fork.tree.package / MIRROR).write_bytes(text)
    git(fork.tree.root, "commit", "-qam", "As upstream has it")
    assert fork.state == "unknown"
    fork.say("status", "--check")
    fork.say("verify")
    assert "neither a comment, a record" in fork.say("revert", "t-near", code=3)
    assert fork.say("revert").startswith("Reverted: t-far.")
    assert fork.tree.read(MIRROR) == text


@pytest.mark.parametrize("words", [(), ("--commit",)], ids=["", "--commit"])
def test_a_file_that_was_taken_back_stays_so_when_another_patch_is_applied(
    checkout: CheckoutTree, patch_folder: Path, words: tuple[str, ...]
) -> None:
    add_patch(
        patch_folder, "t-two", attribute(ABRUPT, "Worker", "two = 1"), attribute(CRLF, "Backend", "twice = 1")
    )
    add_patch(patch_folder, "t-far", attribute(CRLF, "Backend", "far = 1"))
    fork = committing(checkout)
    run("apply", fork.root, "t-two", *words)
    git(fork.package, "checkout", "HEAD~" if words else "HEAD", ABRUPT)
    if words:
        git(fork.root, "commit", "-qm", "Back")
    run("apply", fork.root, "t-far", *words)
    assert fork.read(ABRUPT) == SOURCES[ABRUPT]
    assert b"far = 1" in (fork.read(CRLF) or b"")
