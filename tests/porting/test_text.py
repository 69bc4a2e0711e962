"""A change of files outside the package is made line by line, whole or not at all."""

from __future__ import annotations

import pytest

from patchkit.change.edits import Outcome
from patchkit.drafting.change import GivenFile
from patchkit.patchset.unified import Hunk
from patchkit.porting import text
from patchkit.tree.tree import MemoryTree, OverlayTree

PLACE, MOVED = "../../docs/desk.md", "../../guide/desk.md"
BASE = b"one\ntwo\nthree\nfour\nfive\nsix\n"
THEIRS = BASE.replace(b"two", b"2")
OURS = BASE.replace(b"six", b"6")
BOTH = THEIRS.replace(b"six", b"6")
DIFFERS = "the lines differ in this tree"


def made(change: GivenFile, ours: bytes | None) -> tuple[Outcome, str, dict[str, bytes | None]]:
    """Return the outcome of a change of one file, its reason, and the new contents."""
    (landed,), contents, _ = text.merged([change], OverlayTree(MemoryTree({}), {PLACE: ours}))
    (edit,) = landed.edits
    assert (landed.file, landed.onto, landed.notes) == ("docs/desk.md", "docs/desk.md", [])
    return edit.outcome, edit.reason, contents


@pytest.mark.parametrize(
    ("change", "ours", "outcome", "reason", "result"),
    [
        ((BASE, THEIRS), BASE, Outcome.LANDED, "", THEIRS),
        ((BASE, THEIRS), OURS, Outcome.LANDED, "", BOTH),
        ((BASE, THEIRS), THEIRS, Outcome.ALREADY, "", None),
        ((BASE, THEIRS), BOTH, Outcome.ALREADY, "", None),
        ((BASE, THEIRS), BASE.replace(b"two", b"zwei"), Outcome.CONFLICT, DIFFERS, None),
        ((BASE, THEIRS), b"\xff\n", Outcome.CONFLICT, DIFFERS, None),
        ((BASE, THEIRS), None, Outcome.NO_SITE, "this tree has no such file", None),
        ((None, THEIRS), None, Outcome.LANDED, "", THEIRS),
        ((None, THEIRS), OURS, Outcome.CONFLICT, "the change adds the file, and this tree's differs", None),
        ((None, THEIRS), THEIRS, Outcome.ALREADY, "", None),
        ((BASE, None), OURS, Outcome.CONFLICT, "the change deletes the file, and this tree's differs", None),
        ((BASE, None), None, Outcome.ALREADY, "", None),
    ],
)
def test_a_change_of_a_file(
    change: tuple[bytes | None, bytes | None],
    ours: bytes | None,
    outcome: Outcome,
    reason: str,
    result: bytes | None,
) -> None:
    contents = {PLACE: result} if result is not None else {}
    assert made(GivenFile(PLACE, *change), ours) == (outcome, reason, contents)


def test_a_file_that_the_change_deletes_goes() -> None:
    assert made(GivenFile(PLACE, BASE, None), BASE) == (Outcome.LANDED, "", {PLACE: None})


@pytest.mark.parametrize(
    ("ours", "outcome", "reason", "result"),
    [
        (OURS, Outcome.LANDED, "", BOTH),
        (BASE.replace(b"two", b"zwei"), Outcome.CONFLICT, DIFFERS, None),
        (b"\xff\n", Outcome.CONFLICT, DIFFERS, None),
        (None, Outcome.NO_SITE, "this tree has no such file", None),
    ],
)
def test_a_change_of_which_only_its_hunks_are_known(
    ours: bytes | None, outcome: Outcome, reason: str, result: bytes | None
) -> None:
    hunk = Hunk("@@ -1,3 +1,3 @@", 1, ["one\n", "two\n", "three\n"], ["one\n", "2\n", "three\n"])
    contents = {PLACE: result} if result is not None else {}
    assert made(GivenFile(PLACE, None, None, hunks=(hunk,)), ours) == (outcome, reason, contents)


@pytest.mark.parametrize(
    ("namesakes", "ours", "place"),
    [
        ({MOVED: OURS}, None, MOVED),
        ({MOVED: b"something else\n"}, None, PLACE),
        ({MOVED: OURS, "../../old/desk.md": OURS}, None, PLACE),
        ({MOVED: OURS, "../../old/desk.md": b"else\n"}, None, MOVED),
        ({MOVED: OURS}, OURS, PLACE),
        ({}, None, PLACE),
    ],
)
def test_a_file_that_moved_is_found_by_its_name_and_its_content(
    monkeypatch: pytest.MonkeyPatch, namesakes: dict[str, bytes], ours: bytes | None, place: str
) -> None:
    monkeypatch.setattr(text, "namesakes", lambda tree, file: list(namesakes))
    tree = OverlayTree(MemoryTree({}), {PLACE: ours, **namesakes})
    (landed,), contents, _ = text.merged([GivenFile(PLACE, BASE, THEIRS)], tree)
    moved = place == MOVED
    assert landed.file == "docs/desk.md"
    assert landed.onto == ("guide/desk.md" if moved else "docs/desk.md")
    assert landed.notes == (["docs/desk.md is guide/desk.md in this tree"] if moved else [])
    assert contents == ({place: BOTH} if moved or ours is not None else {})


def test_a_file_that_the_change_adds_is_not_one_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "namesakes", lambda tree, file: [MOVED])
    tree = OverlayTree(MemoryTree({}), {PLACE: None, MOVED: THEIRS})
    _, contents, _ = text.merged([GivenFile(PLACE, None, THEIRS)], tree)
    assert contents == {PLACE: THEIRS}
