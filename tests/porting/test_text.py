"""A change of files outside the package is made line by line, whole or not at all."""

from __future__ import annotations

import pytest

from patchkit.change.edits import Outcome
from patchkit.drafting.change import GivenFile
from patchkit.patchset.unified import Hunk
from patchkit.porting import text
from patchkit.tree.modes import LINK, NO_FILE, PLAIN, PROGRAM
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


LINKED = "srt/link.py"


@pytest.mark.parametrize(
    ("change", "ours", "outcome", "reason", "made"),
    [
        # A link that comes, goes, or leads elsewhere.
        ((None, NO_FILE, b"desk.py", LINK), (None, NO_FILE), "landed", "", (b"desk.py", LINK)),
        ((None, NO_FILE, b"desk.py", LINK), (b"desk.py", LINK), "already", "", None),
        (
            (None, NO_FILE, b"desk.py", LINK),
            (b"shelf.py", LINK),
            "conflict",
            "this tree has another link in its place",
            None,
        ),
        (
            (None, NO_FILE, b"desk.py", LINK),
            (b"x = 1\n", PLAIN),
            "conflict",
            "this tree has a file in its place",
            None,
        ),
        ((b"desk.py", LINK, None, NO_FILE), (b"desk.py", LINK), "landed", "", (None, NO_FILE)),
        ((b"desk.py", LINK, None, NO_FILE), (None, NO_FILE), "already", "", None),
        ((b"desk.py", LINK, b"shelf.py", LINK), (b"desk.py", LINK), "landed", "", (b"shelf.py", LINK)),
        (
            (b"desk.py", LINK, b"shelf.py", LINK),
            (None, NO_FILE),
            "no-site",
            "this tree has no such file",
            None,
        ),
        # A file in place of a link, and the other way round.
        ((b"desk.py", LINK, b"x = 1\n", PLAIN), (b"desk.py", LINK), "landed", "", (b"x = 1\n", PLAIN)),
        ((b"x = 1\n", PLAIN, b"desk.py", LINK), (b"x = 1\n", PLAIN), "landed", "", (b"desk.py", LINK)),
        (
            (b"x = 1\n", PLAIN, b"desk.py", LINK),
            (b"x = 2\n", PLAIN),
            "conflict",
            "this tree has a file in its place",
            None,
        ),
        (
            (b"x = 1\n", PLAIN, b"x = 2\n", PLAIN),
            (b"desk.py", LINK),
            "conflict",
            "it is a link in this tree",
            None,
        ),
        # One that leads out of the tree.
        *(
            (
                (None, NO_FILE, target, LINK),
                (None, NO_FILE),
                "conflict",
                f"it leads out of the tree, to {target.decode()}",
                None,
            )
            for target in (b"/etc/passwd", b"../../outside", b".git/config", b"")
        ),
        ((None, PLAIN, b"desk.py", LINK), (None, NO_FILE), "landed", "", (b"desk.py", LINK)),
        ((b"desk.py", LINK, None, PLAIN), (None, NO_FILE), "already", "", None),
        ((None, NO_FILE, b"../desk.py", LINK), (None, NO_FILE), "landed", "", (b"../desk.py", LINK)),
        ((None, NO_FILE, b"a/../desk.py", LINK), (None, NO_FILE), "landed", "", (b"a/../desk.py", LINK)),
    ],
)
def test_a_change_of_a_link(
    change: tuple[bytes | None, str, bytes | None, str],
    ours: tuple[bytes | None, str],
    outcome: str,
    reason: str,
    made: tuple[bytes | None, str] | None,
) -> None:
    before, old, after, new = change
    given = GivenFile(LINKED, before, after, modes=(old, new))
    tree = OverlayTree(MemoryTree({}), {LINKED: ours[0]}, {LINKED: ours[1]})
    (landed,), contents, modes = text.merged([given], tree)
    (edit,) = landed.edits
    assert (edit.outcome.value, edit.reason) == (outcome, reason)
    assert (contents, modes) == (({LINKED: made[0]}, {LINKED: made[1]}) if made is not None else ({}, {}))


@pytest.mark.parametrize(
    ("change", "ours", "found", "modes"),
    [
        (
            (BASE, PLAIN, BASE, PROGRAM),
            PLAIN,
            [("already", ""), ("landed", "its mode becomes 100755")],
            PROGRAM,
        ),
        ((BASE, PLAIN, BASE, PROGRAM), PROGRAM, [("already", ""), ("already", "")], ""),
        (
            (BASE, PLAIN, THEIRS, PROGRAM),
            PLAIN,
            [("landed", ""), ("landed", "its mode becomes 100755")],
            PROGRAM,
        ),
        ((BASE, PROGRAM, THEIRS, PROGRAM), PROGRAM, [("landed", "")], ""),
        ((None, NO_FILE, THEIRS, PLAIN), NO_FILE, [("landed", "")], ""),
        (
            (None, NO_FILE, THEIRS, PROGRAM),
            NO_FILE,
            [("landed", ""), ("landed", "its mode becomes 100755")],
            PROGRAM,
        ),
        ((BASE, PROGRAM, None, NO_FILE), PROGRAM, [("landed", "")], ""),
        ((BASE.replace(b"two", b"zwei"), PLAIN, THEIRS, PROGRAM), PLAIN, [("conflict", DIFFERS)], ""),
    ],
)
def test_a_change_of_a_mode(
    change: tuple[bytes | None, str, bytes | None, str],
    ours: str,
    found: list[tuple[str, str]],
    modes: str,
) -> None:
    before, old, after, new = change
    given = GivenFile(LINKED, before, after, modes=(old, new))
    tree = OverlayTree(MemoryTree({}), {LINKED: None if ours == NO_FILE else BASE}, {LINKED: ours})
    (landed,), _, made = text.merged([given], tree)
    assert [(edit.outcome.value, edit.reason) for edit in landed.edits] == found
    assert made == ({LINKED: modes} if modes else {})
