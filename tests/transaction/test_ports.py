"""How a commit names the port that it is, and how a port is known again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.toys import git

from patchkit.errors import ConflictError
from patchkit.transaction import ports
from patchkit.transaction.ports import left_out_note, ported_message, trailer, without_trailers
from patchkit.transaction.swap import digest_of, digest_or_none
from patchkit.tree.checkout import Checkout

if TYPE_CHECKING:
    from pathlib import Path

BEFORE, AFTER = b"a\nb\nc\n", b"a\nB\nc\n"


def name_of(*changes: tuple[str, bytes | None, bytes | None]) -> str:
    return trailer("77", {file: (before, after) for file, before, after in changes})


CHANGE = ("srt/a.py", BEFORE, AFTER)


def test_a_trailer_has_the_name_and_a_digest() -> None:
    assert re.fullmatch(r"Patchkit-Port: 77 [0-9a-f]{32}", name_of(CHANGE))


@pytest.mark.parametrize(
    "same",
    [
        [("srt/a.py", b"x\n" + BEFORE + b"y\n", b"x\n" + AFTER + b"y\n")],
        [("srt/a.py", b"b\nx\n", b"B\nx\n")],
        [("srt/a.py", b"b\r\n", b"B\r\n")],
    ],
)
def test_a_port_is_the_same_where_other_lines_are_around_it(same: list[tuple[str, bytes, bytes]]) -> None:
    assert name_of(*same) == name_of(CHANGE)


@pytest.mark.parametrize(
    "other",
    [
        [("srt/b.py", BEFORE, AFTER)],
        [("srt/a.py", AFTER, BEFORE)],
        [("srt/a.py", BEFORE, b"a\nB\nB\nc\n")],
        [("srt/a.py", BEFORE, b"a\nc\n")],
        [("srt/a.py", None, b"B\n")],
        [("srt/a.py", b"b\n", None)],
        [CHANGE, ("srt/b.py", None, b"")],
        [CHANGE, ("srt/b.py", b"", None)],
        [("srt/a.py", BEFORE, BEFORE)],
        [],
    ],
)
def test_another_change_is_another_port(other: list[tuple[str, bytes | None, bytes | None]]) -> None:
    assert name_of(*other) != name_of(CHANGE)


def test_the_order_of_files_does_not_matter() -> None:
    more = ("srt/b.py", None, b"x\n")
    assert name_of(CHANGE, more) == name_of(more, CHANGE)


@pytest.mark.parametrize(
    ("message", "left_out", "trailers", "whole"),
    [
        ("Lend books\n\nWhy.\n", [], ["A: b"], "Lend books\n\nWhy.\n\nA: b\n"),
        ("Lend books\n", [], ["A: b", "C: d"], "Lend books\n\nA: b\nC: d\n"),
        ("", [], ["A: b"], "77\n\nA: b\n"),
        (" \n", [], [], "77\n\n"),
        ("Lend\n\nPatchkit-Port: 7 0f\n", [], ["A: b"], "Lend\n\nA: b\n"),
        ("Patchkit-Port: 7 0f\n", [], ["A: b"], "77\n\nA: b\n"),
        (
            "Lend\n",
            ["a.py", "b.py"],
            ["A: b"],
            "Lend\n\nOnly a part of the change: 2 files left out or not whole.\n\n"
            "Patchkit-Left-Out: a.py\nPatchkit-Left-Out: b.py\nA: b\n",
        ),
    ],
)
def test_the_message_of_a_port(message: str, left_out: list[str], trailers: list[str], whole: str) -> None:
    assert ported_message(message, "77", left_out, *trailers) == whole


def test_a_note_of_what_is_left_out_is_only_there_if_something_is() -> None:
    assert left_out_note([]) == ""
    assert left_out_note(["a.py"]).startswith("Only a part of the change: 1 file left out")


def test_lines_that_name_ports_go_and_others_stay() -> None:
    text = "Lend\n\nSee Patchkit-Port: 7\nPatchkit-Port: 7 0f\nOther: x\nPatchkit-Port: broken"
    assert without_trailers(text) == "Lend\n\nSee Patchkit-Port: 7\nOther: x\n"


FILE, OTHER = "srt/a.py", "srt/b.py"


class History:
    """A repository whose top is the package, with a commit for each state of its files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "srt").mkdir(parents=True)
        git(root, "init", "-q")
        self.commit("Start", **{"__init__.py": b"", FILE: BEFORE, OTHER: BEFORE})

    def commit(self, message: str, **files: bytes | None) -> str:
        for file, text in files.items():
            if text is None:
                (self.root / file).unlink()
            else:
                (self.root / file).write_bytes(text)
        git(self.root, "add", "-A")
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        git(self.root, *identity, "commit", "-q", "--allow-empty", "-m", message)
        return git(self.root, "rev-parse", "HEAD").strip()

    def port(self, name: str, **files: tuple[bytes | None, bytes | None]) -> str:
        line = trailer(name, files)
        return self.commit(f"Port\n\n{line}\n", **{file: after for file, (_, after) in files.items()})

    def layers(self, *names: str) -> list[tuple[list[str], dict[str, tuple[str | None, str | None]]]]:
        found = ports.ports_in(self.root)
        layers, contents = ports.layers_of(Checkout(self.root), self.root, found, frozenset(names))
        for layer in layers:
            for each in layer.files.values():
                for digest in {each.original, each.applied} - {None}:
                    assert digest_of(contents[digest]) == digest  # type: ignore[index]
        return [
            ([p.id for p in layer.patches], {f: (e.original, e.applied) for f, e in layer.files.items()})
            for layer in layers
        ]


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "sglang")


def test_the_ports_of_a_history_are_the_commits_that_name_them(history: History) -> None:
    assert ports.ports_in(history.root) == ()
    first = history.port("7", **{FILE: (BEFORE, AFTER)})
    history.commit("Own\n\nSee Patchkit-Port: 8 for more.", **{OTHER: AFTER})
    second = history.port("8", **{OTHER: (AFTER, None)})
    found = ports.ports_in(history.root)
    assert [(port.name, port.commit) for port in found] == [("7", first), ("8", second)]
    assert [len(port.parent) for port in found] == [40, 40]
    assert found[0].parent == git(history.root, "rev-parse", f"{first}^").strip()


def test_a_port_is_a_layer_with_later_ports_of_its_files(history: History) -> None:
    last = AFTER + b"d\n"
    history.port("6", **{OTHER: (BEFORE, AFTER)})
    history.port("7", **{FILE: (BEFORE, AFTER)})
    history.port("8", **{FILE: (AFTER, last)})
    history.port("9", **{OTHER: (AFTER, None), "srt/c.py": (None, BEFORE)})
    a, b, c = map(digest_or_none, (BEFORE, AFTER, last))
    assert history.layers("7") == [(["7"], {FILE: (a, b)}), (["8"], {FILE: (b, c)})]
    assert history.layers("8") == [(["8"], {FILE: (b, c)})]
    assert history.layers("9") == [(["9"], {OTHER: (b, None), "srt/c.py": (None, a)})]
    assert [names for names, _ in history.layers("6")] == [["6"], ["9"]]
    assert history.layers() == []


def test_a_commit_with_other_changes_is_no_port_to_revert(history: History) -> None:
    line = trailer("7", {FILE: (BEFORE, AFTER)})
    commit = history.commit(f"Port\n\n{line}\n", **{FILE: AFTER, OTHER: AFTER})
    with pytest.raises(
        ConflictError,
        match=rf"7: its commit {commit[:12]} has other changes too, or not all of its own: use git revert",
    ):
        history.layers("7")


def test_of_ports_that_were_squashed_each_is_of_the_commit(history: History) -> None:
    lines = [trailer("7", {FILE: (BEFORE, AFTER)}), trailer("8", {OTHER: (BEFORE, AFTER)})]
    commit = history.commit("Both\n\n" + "\n".join(lines) + "\n", **{FILE: AFTER, OTHER: AFTER})
    found = ports.ports_in(history.root)
    assert [(port.name, port.commit) for port in found] == [("7", commit), ("8", commit)]
    (both,) = ports.commits_of(Checkout(history.root), history.root, found)
    assert [patch.id for patch in both[0].patches] == ["8", "7"]
    assert both[0].files.keys() == {FILE, OTHER}
    assert both[0].is_ported


def test_a_port_of_a_port_is_the_last_that_its_commit_names(history: History) -> None:
    lines = [trailer("7", {FILE: (b"x\n", b"y\n")}), trailer("8", {FILE: (BEFORE, AFTER)})]
    history.commit("Again\n\n" + "\n".join(lines) + "\n", **{FILE: AFTER})
    assert [port.name for port in ports.ports_in(history.root)] == ["8"]


def test_a_port_in_a_shallow_clone_needs_the_commit_before_it(history: History, tmp_path: Path) -> None:
    history.port("7", **{FILE: (BEFORE, AFTER)})
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{history.root}", "shallow")
    found = ports.ports_in(tmp_path / "shallow")
    assert [(port.name, port.parent) for port in found] == [("7", "")]
    with pytest.raises(
        ConflictError, match=r"has no code from before its commit \w{12}: run git fetch --unshallow"
    ):
        ports.layers_of(Checkout(tmp_path / "shallow"), tmp_path / "shallow", found, frozenset({"7"}))


def test_the_line_for_a_commit_is_that_of_its_changes(history: History) -> None:
    parent = git(history.root, "rev-parse", "HEAD").strip()
    commit = history.commit("Own", **{FILE: AFTER, OTHER: None})
    wanted = trailer("7", {FILE: (BEFORE, AFTER), OTHER: (BEFORE, None)})
    assert ports.trailer_of(history.root, "7", parent, commit) == wanted
