"""``patchkit port``: a change of others is made in a drifted tree, and every failure is reported."""

from __future__ import annotations

import base64
import itertools
import json
import quopri
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner
from support.repositories import committing, whole
from support.sweeps import crossed
from support.toys import everything, git, patch_text, statement, write_package

from patchkit.cli import main, schemas
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

DESK = "srt/desk.py"
SHELF = "srt/shelf.py"
SOURCES = {
    "__init__.py": b"",
    "version.py": b'__version__ = "0.5.12"\n',
    "srt/__init__.py": b"",
    SHELF: b"def place(book, row=0):\n    return row\n\n\ndef stamp(book):\n    return book\n",
    DESK: b"""\
from sglang.srt.shelf import place


class Desk:
    days = 14

    def lend(self, book, reader):
        if book.out:
            raise ValueError(book)
        due = self.today + self.days
        reader.books.append(book)
        return due

    def take(self, book):
        book.out = False
        return place(book)
""",
}
LENT = (
    b"        reader.books.append(book)\n",
    b"        reader.books.append(book)\n        reader.due = due\n",
)


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == code, (result.output, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def answer_of(*arguments: object, code: int = 0) -> Any:
    """Return a command's answer, which is as its schema says."""
    answer = json.loads(run(*arguments, "--json", code=code).stdout)
    msgspec.convert(answer, schemas.ANSWERS["port"])
    return answer


def edits(answer: Any) -> list[tuple[str, str, str]]:
    return [
        (file["onto"], edit["site"], edit["outcome"])
        for tree in answer["trees"]
        for change in tree["changes"]
        for file in change["files"]
        for edit in file["edits"]
    ]


@pytest.fixture
def main_line(tmp_path: Path) -> Path:
    """A repository in which somebody else works."""
    root = tmp_path / "theirs"
    write_package(root / "python" / "sglang", SOURCES)
    git(tmp_path, "init", "-q", "-b", "main", "theirs")
    git(root, "add", ".")
    git(root, "commit", "-qm", "As it was")
    return root


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    return write_package(tmp_path / "fork" / "sglang", SOURCES).parent


def changed(
    root: Path, *changes: tuple[bytes, bytes], file: str = DESK, why: str = "Lend until a day (#77)"
) -> str:
    path = root / "python" / "sglang" / file
    text = path.read_bytes()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_bytes(text)
    git(root, "add", "-A")
    date = "2026-05-04T03:02:01 +0300"
    git(root, "commit", "-qm", why, "--author=Some Body <some@example.org>", f"--date={date}")
    return git(root, "rev-parse", "HEAD").strip()


def drifted(fork: Path, *changes: tuple[bytes, bytes], file: str = DESK) -> None:
    path = fork / "sglang" / file
    text = path.read_bytes()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_bytes(text)


def test_a_commit_lands_on_a_drifted_tree_and_revert_gives_every_byte_back(
    main_line: Path, fork: Path
) -> None:
    commit = changed(main_line, LENT)
    drifted(fork, (b"        due = self.today", b"        note(book)\n        due = self.today"))
    before = everything(fork)
    answer = answer_of("port", commit, "--repo", main_line, "--onto", fork)
    assert edits(answer) == [(DESK, "Desk.lend", "landed")]
    assert answer["written"]
    assert LENT[1] in (fork / "sglang" / DESK).read_bytes()
    assert run("revert", fork).output.startswith("Reverted: 77.\n")
    assert everything(fork) == before


def test_once_more_it_is_there_already_and_nothing_is_written(main_line: Path, fork: Path) -> None:
    commit = changed(main_line, LENT)
    run("port", commit, "--repo", main_line, "--onto", fork)
    once = everything(fork)
    answer = answer_of("port", commit, "--repo", main_line, "--onto", fork)
    assert {outcome for _, _, outcome in edits(answer)} == {"already"}
    assert (answer["written"], everything(fork)) == (False, once)


def test_a_conflict_is_reported_with_its_site_and_nothing_is_written(main_line: Path, fork: Path) -> None:
    commit = changed(main_line, LENT, (b"self.today + self.days", b"self.today + self.days * 2"))
    drifted(fork, (b"self.today + self.days", b"self.later()"))
    before = everything(fork)
    result = run("port", commit, "--repo", main_line, "--onto", fork, code=3)
    assert "1 edit cannot be applied (srt/desk.py: Desk.lend: " in result.output
    assert "\n--keep-going would change 1 file.\n" in result.stdout
    assert "so nothing was written" in result.stderr
    assert everything(fork) == before


def test_keep_going_makes_the_other_edits_and_the_exit_code_reports_the_rest(
    main_line: Path, fork: Path
) -> None:
    commit = changed(main_line, LENT, (b"self.today + self.days", b"self.today + self.days * 2"))
    drifted(fork, (b"self.today + self.days", b"self.later()"))
    run("port", commit, "--repo", main_line, "--onto", fork, "--keep-going", code=1)
    text = (fork / "sglang" / DESK).read_bytes()
    assert LENT[1] in text
    assert b"due = self.later()" in text


def test_after_keep_going_the_next_command_writes_markers_at_the_conflicts(
    main_line: Path, fork: Path
) -> None:
    commit = changed(main_line, LENT, (b"self.today + self.days", b"self.today + self.days * 2"))
    drifted(fork, (b"self.today + self.days", b"self.later()"))
    git(fork, "init", "-q")
    git(fork, "add", ".")
    git(fork, "commit", "-qm", "A fork")
    words = ("port", commit, "--onto", fork, "--repo", main_line)
    output = " ".join(run(*words, "--keep-going", code=1).output.split()).partition(" git commit -a")[0]
    command = f"port {commit} --onto {fork} --repo {main_line} --markers"
    assert output.endswith(f"Next: patchkit {command} writes conflict markers, to resolve by hand")
    output = run(*command.split(), code=1).output
    assert f"Next: patchkit resolve {fork} 77 edit-1" in " ".join(output.split())
    text = (fork / "sglang" / DESK).read_bytes()
    assert LENT[1] in text
    assert b"<<<<<<<" in text


RETURNED = (
    b"        book.out = False\n        return place(book)\n",
    b"        lost = self.find(book)\n        return lost\n",
)


@pytest.mark.parametrize(
    ("change", "own"),
    [
        (
            RETURNED,
            (b"        return place(book)\n", b"        book.count += 1\n        return place(book)\n"),
        ),
        (
            (b"        return place(book)\n", b""),
            (b"        return place(book)\n", b"        return place(book, 2)\n"),
        ),
    ],
    ids=["own code between", "it differs"],
)
def test_own_code_in_what_is_replaced_or_removed_is_a_conflict_and_no_file_changes(
    main_line: Path, fork: Path, change: tuple[bytes, bytes], own: tuple[bytes, bytes]
) -> None:
    commit = changed(main_line, change)
    drifted(fork, own)
    before = everything(fork)
    answer_of("port", commit, "--repo", main_line, "--onto", fork, code=3)
    assert everything(fork) == before


def test_an_edit_that_was_adapted_is_said_and_the_exit_code_asks_for_a_look(
    main_line: Path, fork: Path
) -> None:
    due = b"        due = self.today + self.days\n"
    commit = changed(main_line, (due, due + b"        print(due)\n"))
    drifted(fork, (due, due + b"        due = due * 2\n"))
    output = run("port", commit, "--repo", main_line, "--onto", fork, code=1).output
    assert "applied; the code around it differs" in output
    assert b"print(due)" in (fork / "sglang" / DESK).read_bytes()


def test_markers_show_what_was_found_expected_and_wanted_and_are_reverted(
    main_line: Path, fork: Path
) -> None:
    commit = changed(main_line, (b"self.today + self.days", b"self.today + self.days * 2"))
    drifted(fork, (b"self.today + self.days", b"self.later()"))
    before = everything(fork)
    run("port", commit, "--repo", main_line, "--onto", fork, "--markers", code=1)
    text = (fork / "sglang" / DESK).read_text()
    marked = text[text.index("<<<<<<<") : text.index(">>>>>>>")]
    assert marked.count("        due = ") == 3
    assert (
        "        due = self.later()\n||||||| expected\n        due = self.today + self.days\n=======\n"
        in marked
    )
    run("revert", fork)
    assert everything(fork) == before


def test_a_function_that_is_not_there_is_the_reason(main_line: Path, fork: Path) -> None:
    commit = changed(main_line, (b"        book.out = False\n", b"        book.out = None\n"))
    drifted(fork, (b"    def take(self, book):\n        book.out = False\n        return place(book)\n", b""))
    answer = answer_of(
        "port", commit, "--repo", main_line, "--onto", fork, "--dry-run", "--keep-going", code=1
    )
    assert edits(answer) == [(DESK, "Desk.take", "no-site")]
    assert "the tree has no Desk.take" in json.dumps(answer)


def test_a_file_that_is_not_there_is_named_as_the_reason(main_line: Path, fork: Path) -> None:
    commit = changed(main_line, (b"\n\nclass Desk:", b"\nLIMIT = 3\n\n\nclass Desk:"))
    (fork / "sglang" / DESK).unlink()
    output = run("port", commit, "--repo", main_line, "--onto", fork, code=3).output
    assert f"not found: the tree has no {DESK}\n" in output
    assert "no such file" not in output


def test_a_moved_file_and_a_moved_method_are_followed_and_reported(main_line: Path, fork: Path) -> None:
    commit = changed(main_line, LENT, (b"        book.out = False\n", b"        book.out = None\n"))
    package = fork / "sglang"
    (package / "srt" / "counter").mkdir()
    (package / DESK).rename(package / "srt" / "counter" / "desk.py")
    take = b"    def take(self, book):\n        book.out = False\n        return place(book)\n"
    drifted(fork, (take, b"    pass\n"), file="srt/counter/desk.py")
    (package / SHELF).write_bytes(SOURCES[SHELF] + b"\n\nclass Shelf:\n" + take)
    answer = answer_of("port", commit, "--repo", main_line, "--onto", fork)
    (file,) = answer["trees"][0]["changes"][0]["files"]
    assert file["notes"] == [
        "srt/desk.py is srt/counter/desk.py in this tree",
        "Desk.take is Shelf.take in srt/shelf.py of this tree",
    ]
    assert b"reader.due = due" in (package / "srt/counter/desk.py").read_bytes()
    assert b"book.out = None" in (package / SHELF).read_bytes()


def test_a_renamed_parameter_is_followed_and_said(main_line: Path, fork: Path) -> None:
    commit = changed(main_line, LENT)
    path = fork / "sglang" / DESK
    path.write_bytes(SOURCES[DESK].replace(b"reader", b"member"))
    answer = answer_of("port", commit, "--repo", main_line, "--onto", fork)
    assert (
        "reader is named member in Desk.lend of this tree"
        in answer["trees"][0]["changes"][0]["files"][0]["notes"]
    )
    assert path.read_bytes() == SOURCES[DESK].replace(*LENT).replace(b"reader", b"member")


def test_an_edit_that_needs_what_is_not_there_is_not_made(main_line: Path, fork: Path) -> None:
    changed(main_line, (b"def stamp(book)", b"def seal(book)"), file=SHELF, why="Another word")
    changed(main_line, (b"import place\n", b"import place, seal\n"), why="It is used")
    commit = changed(
        main_line, (b"        return place(book)\n", b"        seal(book)\n        return place(book)\n")
    )
    before = everything(fork)
    answer = answer_of("port", commit, "--repo", main_line, "--onto", fork, code=3)
    assert edits(answer) == [(DESK, "Desk.take", "unmet")]
    assert "seal is not defined in this tree" in json.dumps(answer)
    assert everything(fork) == before


def test_an_import_that_the_new_code_needs_comes_along(main_line: Path, fork: Path) -> None:
    changed(main_line, (b"import place\n", b"import place, stamp\n"), why="For later")
    commit = changed(main_line, (b"        return place(book)\n", b"        return place(stamp(book))\n"))
    run("port", commit, "--repo", main_line, "--onto", fork)
    text = (fork / "sglang" / DESK).read_bytes()
    assert b"from sglang.srt.shelf import stamp\n" in text
    assert b"return place(stamp(book))" in text


def test_a_call_that_is_not_accepted_there_is_a_finding(main_line: Path, fork: Path) -> None:
    commit = changed(main_line, (b"        return place(book)\n", b"        return place(book, row=1)\n"))
    drifted(
        fork, (b"def place(book, row=0):\n    return row\n", b"def place(book):\n    return 0\n"), file=SHELF
    )
    answer = answer_of("port", commit, "--repo", main_line, "--onto", fork, code=1)
    (finding,) = answer["trees"][0]["changes"][0]["findings"]
    assert (finding["file"], finding["function"]) == (DESK, "Desk.take")
    assert "takes no `row`" in finding["message"]


def test_a_call_of_a_helper_whose_own_edit_was_not_made_is_a_finding(main_line: Path, fork: Path) -> None:
    placing = b"def place(book, row=0):\n    return row\n"
    path = main_line / "python" / "sglang" / SHELF
    path.write_bytes(
        path.read_bytes().replace(placing, b"def place(book, row=0, side=1):\n    return row * side\n")
    )
    commit = changed(main_line, (b"        book.out = False\n", b"        book.shelf.place(book, side=2)\n"))
    drifted(fork, (placing, b"place = print\n"), file=SHELF)
    answer = answer_of("port", commit, "--repo", main_line, "--onto", fork, "--keep-going", code=1)
    outcomes = {(file, outcome) for file, _, outcome in edits(answer)}
    assert {(SHELF, "no-site"), (DESK, "landed")} <= outcomes
    (finding,) = answer["trees"][0]["changes"][0]["findings"]
    assert (finding["file"], finding["function"]) == (DESK, "Desk.take")
    assert "`side` of place is not in srt/shelf.py" in finding["message"]


def test_a_commit_keeps_author_date_and_message_and_names_its_origin(main_line: Path, fork: Path) -> None:
    commit = changed(
        main_line, LENT, why="Lend until a day (#77)\n\nSo that it is known.\n\nHelped-by: Nobody"
    )
    git(fork.parent, "init", "-q", "fork")
    git(fork, "add", ".")
    git(fork, "commit", "-qm", "A fork")
    committing(open_tree(fork))
    answer = answer_of("port", commit, "--repo", main_line, "--onto", fork, "--commit")
    assert git(fork, "log", "-1", "--format=%an <%ae>|%ad|%cn", "--date=iso") == (
        "Some Body <some@example.org>|2026-05-04 03:02:01 +0300|A Maintainer\n"
    )
    message = git(fork, "log", "-1", "--format=%B").strip()
    assert message.startswith("Lend until a day (#77)\n\nSo that it is known.\n\nHelped-by: Nobody\n")
    assert message.endswith(f"(cherry picked from commit {commit})")
    assert answer["trees"][0]["changes"][0]["made"] == git(fork, "rev-parse", "HEAD").strip()
    assert git(fork, "status", "--porcelain") == ""


def test_each_commit_of_a_range_is_one(main_line: Path, fork: Path) -> None:
    first = changed(main_line, LENT)
    changed(main_line, (b"reader.due = due", b"reader.due = due or 1"), why="Never nothing (#77)")
    git(fork.parent, "init", "-q", "fork")
    git(fork, "add", ".")
    git(fork, "commit", "-qm", "A fork")
    committing(open_tree(fork))
    answer = answer_of("port", f"{first}^..main", "--repo", main_line, "--onto", fork, "--commit")
    made = [change["made"] for change in answer["trees"][0]["changes"]]
    assert made == git(fork, "rev-list", "--reverse", "--max-count=2", "HEAD").split()
    assert git(fork, "log", "--format=%s", "-2").split("\n")[:2] == [
        "Never nothing (#77)",
        "Lend until a day (#77)",
    ]
    assert b"due or 1" in (fork / "sglang" / DESK).read_bytes()


def test_progress_names_each_file_of_a_change_and_is_not_in_the_answer(
    main_line: Path, fork: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = changed(main_line, LENT)
    monkeypatch.setenv("FORCE_COLOR", "1")  # A terminal, as far as rich knows.
    result = run("port", commit, "--repo", main_line, "--onto", fork, "--json")
    assert f"0 of 1 files: porting {DESK}" in result.stderr
    assert json.loads(result.stdout)["written"]


def test_progress_counts_the_commits_of_a_range_and_the_trees_of_a_matrix(
    main_line: Path, fork: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = changed(main_line, LENT)
    last = changed(main_line, (b"reader.due = due", b"reader.due = due or 1"))
    monkeypatch.setenv("FORCE_COLOR", "1")  # A terminal, as far as rich knows.
    ported = run("port", f"{first}^..{last}", "--repo", main_line, "--onto", fork, "--dry-run")
    assert "1 of 2 commits: porting " in ported.stderr
    surveyed = run("port", last, "--repo", main_line, "--onto", "HEAD", "--onto", "HEAD^")
    assert "1 of 2 trees: porting to HEAD^" in surveyed.stderr


def test_refs_are_a_matrix_and_nothing_is_written(main_line: Path) -> None:
    git(main_line, "branch", "old")
    git(main_line, "checkout", "-q", "-b", "other")
    changed(main_line, (b"        reader.books.append(book)\n", b""), why="Readers keep no list")
    git(main_line, "checkout", "-q", "main")
    commit = changed(main_line, LENT)
    empty = git(main_line, "commit-tree", "-m", "Empty", git(main_line, "mktree").strip()).strip()
    before = whole(open_tree(main_line))
    refs = [word for ref in ("old", "other", empty) for word in ("--onto", ref)]
    answer = answer_of("port", commit, "--repo", main_line, *refs, code=4)
    assert [tree["onto"] for tree in answer["trees"]] == ["old", "other", empty]
    assert [tree["whole"] for tree in answer["trees"]] == [True, True, False]
    assert answer["trees"][2]["error"]
    assert whole(open_tree(main_line)) == before


def test_a_conflict_with_a_ref_has_the_exit_code_of_one_with_a_tree(main_line: Path) -> None:
    git(main_line, "checkout", "-q", "-b", "other")
    changed(main_line, (b"self.today + self.days", b"self.later()"), why="Later")
    git(main_line, "checkout", "-q", "main")
    commit = changed(main_line, (b"self.today + self.days", b"self.today + self.days * 2"))
    words = ("port", commit, "--repo", main_line, "--onto", "other")
    for more in ((), ("--dry-run",), ("--onto", "main^")):
        assert "conflict" in run(*words, *more, code=3).output
    run(*words, "--keep-going", code=1)


def test_what_is_neither_a_folder_nor_a_ref_is_named_with_what_to_type(main_line: Path) -> None:
    commit = changed(main_line, LENT)
    for more in ((), ("--onto", "main^")):
        refused = run("port", commit, "--repo", main_line, "--onto", "nope", *more, code=2)
        assert f"nope is neither a folder nor a ref of {main_line}" in refused.stderr
        assert refused.stdout == ""


def test_a_diff_lands_as_its_commit_does_and_is_kept_as_a_patch_where_asked(
    main_line: Path, fork: Path, tmp_path: Path
) -> None:
    git(main_line, "tag", "was")
    commit = changed(main_line, LENT)
    diff = tmp_path / "until-a-day.diff"
    diff.write_text(git(main_line, "diff", "was", commit))
    own = write_package(tmp_path / "own" / "sglang", SOURCES).parent
    drifted(fork, (b"        due = self.today", b"        note(book)\n        due = self.today"))
    run("port", diff, "--from", own, "--onto", fork, "-o", tmp_path / "kept")
    assert LENT[1] in (fork / "sglang" / DESK).read_bytes()
    kept = tmp_path / "kept" / "until-a-day.diff"
    assert kept.read_text().startswith(f"diff --git a/python/sglang/{DESK} b/python/sglang/{DESK}\n")
    assert (
        run("port", kept, "--from", fork, "--onto", fork, code=2).output.count("already has the change") == 1
    )


BAD = {
    "empty": ("", "it contains no unified diff"),
    "no diff": ("hello\n", "it contains no unified diff"),
    "of another tree": (
        f"--- a/python/sglang/{DESK}\n+++ b/python/sglang/{DESK}\n@@ -1,2 +1,2 @@\n nothing\n-like this\n+there\n",
        "the lines of",
    ),
    "cut off": (f"--- a/python/sglang/{DESK}\n+++ b/python/sglang/{DESK}\n@@ -1,9 +1,9 @@\n from\n", "hunk"),
    "of something else": ("--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-a\n+b\n", "outside the package"),
    "binary": (
        f"diff --git a/python/sglang/{DESK} b/python/sglang/{DESK}\nindex 1..2 100644\nGIT binary patch\n",
        "binary",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_a_diff_that_is_none_is_refused_in_a_sentence_and_nothing_is_written(
    fork: Path, tmp_path: Path, text: str, message: str
) -> None:
    own = write_package(tmp_path / "own" / "sglang", SOURCES).parent
    diff = tmp_path / "it.diff"
    diff.write_text(text)
    before = everything(fork)
    result = run("port", diff, "--from", own, "--onto", fork, code=2)
    assert message in result.output
    assert "--from-diff" not in result.output
    assert "--on " not in result.output
    assert everything(fork) == before


@pytest.mark.parametrize("is_diff", [True, False], ids=["diff", "commit"])
def test_mistyped_ref_of_the_base_is_a_usage_error(
    main_line: Path, fork: Path, tmp_path: Path, is_diff: bool
) -> None:
    changed(main_line, LENT)
    diff = tmp_path / "lent.diff"
    diff.write_text(git(main_line, "show", "HEAD"))
    before = everything(fork)
    change = diff if is_diff else "HEAD"
    words = ("port", change, "--repo", main_line, "--from", "nowhere", "--onto", fork)
    assert f"nowhere is neither a folder nor a ref of {main_line}" in run(*words, code=2).stderr
    assert everything(fork) == before


@pytest.mark.parametrize(
    "file", [DESK, "srt/nothing-like-it.py"], ids=["of other lines", "of a file that is not there"]
)
def test_a_diff_of_another_tree_is_named_with_the_option_that_names_the_right_one(
    fork: Path, tmp_path: Path, file: str
) -> None:
    own = write_package(tmp_path / "own" / "sglang", SOURCES).parent
    diff = tmp_path / "it.diff"
    name = f"python/sglang/{file}"
    diff.write_text(f"--- a/{name}\n+++ b/{name}\n@@ -1,2 +1,2 @@\n nothing\n-like this\n+there\n")
    output = " ".join(run("port", diff, "--from", own, "--onto", fork, code=2).output.split())
    assert f"{diff}: {file}" in output
    assert "pass the tree that the diff was made on with --from" in output


def test_a_diff_that_its_tree_already_has_is_refused_with_the_commit_before_it_as_advice(
    main_line: Path, fork: Path, tmp_path: Path
) -> None:
    changed(main_line, LENT)
    diff = tmp_path / "it.diff"
    diff.write_text(git(main_line, "diff", "HEAD^", "HEAD"))
    output = " ".join(run("port", diff, "--from", main_line, "--onto", fork, code=2).output.split())
    assert f"{diff}: {DESK}: the tree already has the change of @@ " in output
    assert "pass the tree from before the change with --from TREE, or with --from HEAD^ --repo REPO" in output
    run("port", diff, "--from", "HEAD^", "--repo", main_line, "--onto", fork)
    assert LENT[1] in (fork / "sglang" / DESK).read_bytes()


def test_line_ends_of_the_tree_stay_and_a_missing_last_one_too(main_line: Path, fork: Path) -> None:
    commit = changed(main_line, LENT)
    path = fork / "sglang" / DESK
    path.write_bytes(SOURCES[DESK].replace(b"\n", b"\r\n").rstrip(b"\r\n"))
    run("port", commit, "--repo", main_line, "--onto", fork)
    wanted = SOURCES[DESK].replace(*LENT).replace(b"\n", b"\r\n").rstrip(b"\r\n")
    assert path.read_bytes() == wanted


def test_a_file_that_is_renamed_and_changed_is_so_there_too(main_line: Path, fork: Path) -> None:
    git(main_line, "mv", f"python/sglang/{DESK}", "python/sglang/srt/counter.py")
    commit = changed(main_line, LENT, file="srt/counter.py")
    drifted(fork, (b"    days = 14\n", b"    days = 28\n"))
    run("port", commit, "--repo", main_line, "--onto", fork)
    package = fork / "sglang"
    assert not (package / DESK).exists()
    assert (package / "srt/counter.py").read_bytes() == SOURCES[DESK].replace(*LENT).replace(b"14", b"28")


def test_a_diff_that_renames_and_one_with_carriage_returns_land_as_they_are_meant(
    main_line: Path, fork: Path, tmp_path: Path
) -> None:
    own = write_package(tmp_path / "own" / "sglang", SOURCES).parent
    git(main_line, "tag", "was")
    git(main_line, "mv", f"python/sglang/{DESK}", "python/sglang/srt/counter.py")
    commit = changed(main_line, LENT, file="srt/counter.py")
    diff = tmp_path / "renaming.diff"
    diff.write_text(git(main_line, "diff", "-M", "was", commit).replace("\n", "\r\n"), newline="")
    drifted(fork, (b"    days = 14\n", b"    days = 28\n"))
    run("port", diff, "--from", own, "--onto", fork)
    package = fork / "sglang"
    assert not (package / DESK).exists()
    assert (package / "srt/counter.py").read_bytes() == SOURCES[DESK].replace(*LENT).replace(b"14", b"28")


def test_two_diffs_of_one_file_in_one_are_both_made(main_line: Path, fork: Path, tmp_path: Path) -> None:
    own = write_package(tmp_path / "own" / "sglang", SOURCES).parent
    git(main_line, "tag", "was")
    first = changed(main_line, LENT)
    second = changed(main_line, (b"    days = 14\n", b"    days = 21\n"))
    diff = tmp_path / "both.diff"
    diff.write_text(git(main_line, "diff", "was", first) + git(main_line, "diff", first, second))
    run("port", diff, "--from", own, "--onto", fork)
    assert (fork / "sglang" / DESK).read_bytes() == SOURCES[DESK].replace(*LENT).replace(b"14", b"21")


def test_a_file_of_several_mails_is_a_series_with_the_authors_dates_and_messages_of_its_commits(
    main_line: Path, fork: Path, tmp_path: Path
) -> None:
    start = git(main_line, "rev-parse", "HEAD").strip()
    for root in (main_line, fork):
        if root is fork:
            git(root, "init", "-q")
            git(root, "add", ".")
            git(root, "commit", "-qm", "A fork")
        git(root, "config", "user.name", "A Maintainer")
        git(root, "config", "user.email", "maintainer@example.org")
    changed(
        main_line,
        LENT,
        why="Lend until a day (#77)\n\nIt is due.\n\nSigned-off-by: Some Body <some@example.org>",
    )
    again = (b"reader.due = due", b"reader.due = due or 1")
    changed(
        main_line,
        again,
        why="Jörg says: never nothing, and this subject is so long that a mail has to fold it",
    )
    git(main_line, "commit", "-q", "--amend", "--no-edit", "--author=Jörg Müller <joerg@example.org>")
    changed(main_line, (b"    days = 14\n", b"    days = 21\n"), why="Longer (#77)")
    series = tmp_path / "series.mbox"
    options = ("format-patch", "--cover-letter", "--from=Sender <sender@example.org>", "--stdout", start)
    series.write_text(git(main_line, *options), encoding="utf-8")
    answer = answer_of("port", series, "--from", start, "--repo", main_line, "--onto", fork, "--commit")
    (tree,) = answer["trees"]
    assert [change["id"] for change in tree["changes"]] == ["77", "series-2", "series-3"]
    form = "--format=%an <%ae> %ad%n%B"
    written = [
        [
            line
            for line in git(fork, "log", "-1", form, change["made"]).splitlines()
            if "Patchkit-Port" not in line
        ]
        for change in tree["changes"]
    ]
    commits = git(main_line, "rev-list", "--reverse", f"{start}..").split()
    for commit, lines in zip(commits, written, strict=True):
        expected = git(main_line, "log", "-1", form, commit).rstrip().splitlines()
        assert lines[: len(expected)] == expected
        assert f"(cherry picked from commit {commit})" in lines
    assert (fork / "sglang" / DESK).read_bytes() == (main_line / "python" / "sglang" / DESK).read_bytes()


@pytest.mark.parametrize("form", ["commit", "mail"])
def test_a_bare_repository_has_the_commits(main_line: Path, fork: Path, tmp_path: Path, form: str) -> None:
    commit = changed(main_line, LENT)
    git(tmp_path, "clone", "-q", "--bare", str(main_line), "bare.git")
    (tmp_path / "change.eml").write_text(git(main_line, "format-patch", "-1", "--stdout"))
    given = {"commit": (commit,), "mail": (tmp_path / "change.eml", "--from", f"{commit}^")}[form]
    run("port", *given, "--repo", tmp_path / "bare.git", "--onto", fork)
    assert (fork / "sglang" / DESK).read_bytes() == (main_line / "python" / "sglang" / DESK).read_bytes()


@pytest.mark.parametrize("encoding", ["quoted-printable", "base64"])
def test_a_mail_whose_body_was_encoded_is_read(
    main_line: Path, fork: Path, tmp_path: Path, encoding: str
) -> None:
    changed(
        main_line,
        (b"        reader.books.append(book)\n", "        reader.books.append(book)  # Größe = 1\n".encode()),
    )
    head, _, body = git(main_line, "format-patch", "-1", "--stdout").partition("\n\n")
    head += f"\nContent-Transfer-Encoding: {encoding}"
    encoded = quopri.encodestring(body.encode()) if encoding[0] == "q" else base64.encodebytes(body.encode())
    (tmp_path / "change.eml").write_text(f"{head}\n\n{encoded.decode()}")
    run("port", tmp_path / "change.eml", "--from", "HEAD^", "--repo", main_line, "--onto", fork)
    assert (fork / "sglang" / DESK).read_bytes() == (main_line / "python" / "sglang" / DESK).read_bytes()


@pytest.mark.parametrize("option", ["--attach", "--inline"])
def test_a_mail_with_its_diff_attached_keeps_its_message(
    main_line: Path, fork: Path, tmp_path: Path, option: str
) -> None:
    changed(main_line, LENT)
    git(main_line, "commit", "--amend", "-qm", "Count loans\n\nFor the Größe.\n\nAnd the rest.")
    (tmp_path / "change.eml").write_text(git(main_line, "format-patch", "-1", "--stdout", option))
    git(fork, "init", "-q")
    git(fork, "add", ".")
    git(fork, "commit", "-qm", "Ours")
    committing(open_tree(fork))
    run("port", tmp_path / "change.eml", "--from", "HEAD^", "--repo", main_line, "--onto", fork, "--commit")
    assert git(fork, "log", "-1", "--format=%B").startswith(
        "Count loans\n\nFor the Größe.\n\nAnd the rest.\n\n"
    )
    assert (fork / "sglang" / DESK).read_bytes() == (main_line / "python" / "sglang" / DESK).read_bytes()


@pytest.mark.parametrize("place", ["X = {}\n", "table[{}] = 1\n", "def big(n={}):\n    return n\n"])
def test_an_integer_that_python_does_not_write_is_an_error_in_a_sentence(
    main_line: Path, fork: Path, place: str
) -> None:
    commit = changed(main_line, LENT)
    drifted(fork, (b"class Desk:", place.format(f"0x{'f' * 5000}").encode() + b"\n\nclass Desk:"))
    before = everything(fork)
    assert (
        f"{DESK} contains an integer of more than"
        in run("port", commit, "--repo", main_line, "--onto", fork, code=4).stderr
    )
    assert everything(fork) == before


@pytest.mark.parametrize("options", [(), ("--commit",)], ids=str)
def test_a_folder_that_cannot_be_written_leaves_the_tree_as_it_was(
    main_line: Path, fork: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    git(fork, "init", "-q")
    git(fork, "add", ".")
    git(fork, "commit", "-qm", "Ours")
    tree = committing(open_tree(fork))
    commit = changed(main_line, LENT)
    (tmp_path / "file").write_text("")
    before = whole(tree)
    words = ("port", commit, "--repo", main_line, "--onto", fork, *options, "-o")
    output = run(*words, tmp_path / "file" / "kept", code=4).stderr
    assert output.startswith("error: ")
    assert "Not a directory, and nothing was written" in output
    assert whole(tree) == before


def test_a_tree_that_cannot_be_written_leaves_no_folder(main_line: Path, fork: Path, tmp_path: Path) -> None:
    git(fork, "init", "-q")
    git(fork, "add", ".")
    git(fork, "commit", "-qm", "Ours")
    commit = changed(main_line, LENT)
    drifted(fork, (b"    days = 14\n", b"    days = 15\n"))
    folder = tmp_path / "above" / "kept"
    run("port", commit, "--repo", main_line, "--onto", fork, "-o", folder, code=4)
    assert not folder.parent.exists()
    run("port", commit, "--repo", main_line, "--onto", fork, "-o", folder, "--allow-dirty")
    assert {path.name for path in folder.iterdir()} == {"0001-Lend-until-a-day-77.patch"}


@pytest.mark.parametrize("place", ["A mark", "Because"])
def test_a_mail_with_a_nul_is_refused_by_its_file(
    main_line: Path, fork: Path, tmp_path: Path, place: str
) -> None:
    changed(main_line, LENT, why="A mark (#77)\n\nBecause")
    mail = tmp_path / "change.patch"
    text = git(main_line, "format-patch", "--stdout", "-1")
    mail.write_text(text.replace(place, f"{place}\0", 1))
    git(main_line, "checkout", "-q", "HEAD^")
    words = (mail, "--from", main_line, "--onto", fork)
    refused = run("port", *words, code=2).stderr
    assert "NUL" in refused
    assert str(mail) in refused
    new = ("new", "a-mark", "--from-diff", mail, "--on", main_line, "-o", tmp_path / "drafted")
    assert "NUL" in run(*new, code=2).stderr
    mail.write_text(text)
    run("port", *words)


def test_edits_that_need_one_in_conflict_are_said_once(main_line: Path, fork: Path) -> None:
    path = fork / "sglang" / DESK
    path.write_bytes(path.read_bytes().replace(b"self.today + self.days", b"self.now(book)"))
    late = (b"due = self.today + self.days\n", b"due, late = self.today + self.days, 0\n")
    commit = changed(
        main_line,
        late,
        (
            b"        reader.books.append(book)\n",
            b"        reader.books.append(book)\n        reader.late = late\n",
        ),
        (b"        return due\n", b"        return due + late\n"),
    )
    output = run("port", commit, "--repo", main_line, "--onto", fork, code=3).stdout
    assert output.count("late is not defined, since the edit of Desk.lend is not made") == 1


def test_the_code_next_to_several_edits_at_one_place_is_shown_once(main_line: Path, fork: Path) -> None:
    appended = b"        reader.books.append(book)\n"
    drifted(fork, (appended, appended + b"        if book.old:\n            reader.count(book)\n"))
    new = b"".join(
        b"        if book.%s:\n            reader.%s(book)\n" % (word, word) for word in (b"due", b"lost")
    )
    commit = changed(main_line, (appended, appended + new))
    output = run("port", commit, "--repo", main_line, "--onto", fork, code=1).stdout
    assert output.count("+if book.old:") == 1


@pytest.mark.parametrize("given", ["commit", "diff"])
def test_an_executable_file_and_a_mode_that_changes_keep_their_modes_in_a_tree_without_git(
    main_line: Path, fork: Path, tmp_path: Path, given: str
) -> None:
    path = main_line / "python" / "sglang" / "srt" / "tool.py"
    path.write_text("tool = 1\n")
    path.chmod(0o755)
    (main_line / "python" / "sglang" / DESK).chmod(0o755)
    git(main_line, "add", ".")
    git(main_line, "commit", "-qm", "A tool (#77)")
    diff = tmp_path / "change.diff"
    diff.write_text(git(main_line, "show", "HEAD"))
    words = ("HEAD", "--repo", main_line) if given == "commit" else (diff, "--from", fork)
    output = run("port", *words, "--onto", fork).stdout
    assert output.count("its mode becomes 100755") == 2
    assert [(fork / "sglang" / file).stat().st_mode & 0o777 for file in ("srt/tool.py", DESK, SHELF)] == [
        0o755,
        0o755,
        0o644,
    ]


def test_a_file_that_is_no_python_is_merged_by_lines(main_line: Path, fork: Path) -> None:
    kernel = "srt/kernel.cuh"
    for root in (main_line / "python", fork):
        (root / "sglang" / kernel).write_text("int a;\nint b;\nint c;\nint d;\n")
    git(main_line, "add", "-A")
    git(main_line, "commit", "-qm", "A kernel")
    commit = changed(main_line, (b"int b;", b"long b;"), file=kernel)
    drifted(fork, (b"int d;", b"long d;"), file=kernel)
    run("port", commit, "--repo", main_line, "--onto", fork)
    assert (fork / "sglang" / kernel).read_text() == "int a;\nlong b;\nint c;\nlong d;\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("nothing-like-it",),
        ("HEAD", "--repo", "REPO", "--commit", "--markers"),
        ("HEAD", "--repo", "REPO", "--onto", "main", "--commit"),
    ],
)
def test_what_cannot_be_meant_is_refused(main_line: Path, arguments: tuple[str, ...]) -> None:
    words = [str(main_line) if word == "REPO" else word for word in arguments]
    run("port", *words, *(() if "--repo" in words else ("--repo", main_line, "--onto", main_line)), code=2)


def test_what_a_drifted_statement_says_already_is_there_already(main_line: Path, fork: Path) -> None:
    commit = changed(main_line, (b"self.today + self.days", b"today() + self.days"))
    drifted(fork, (b"self.today + self.days", b"today() + self.week"))
    answer = answer_of("port", commit, "--repo", main_line, "--onto", fork)
    assert [outcome for _, _, outcome in edits(answer)] == ["already"]
    assert b"self.week" in (fork / "sglang" / DESK).read_bytes()


OWN = b"        due = self.later() * 2\n"


@pytest.fixture
def left(main_line: Path, fork: Path) -> bytes:
    """A fork in which a port left the markers of two conflicts, and what the file was before."""
    commit = changed(main_line, LENT, (b"self.today + self.days", b"self.today + self.days * 2"))
    drifted(fork, (b"self.today + self.days", b"self.later()"))
    before = (fork / "sglang" / DESK).read_bytes()
    output = run("port", commit, "--repo", main_line, "--onto", fork, "--markers", code=1).output
    assert f"patchkit resolve {fork} 77 edit-1" in " ".join(output.split())
    return before


def finished(fork: Path) -> None:
    path = fork / "sglang" / DESK
    head, _, rest = path.read_bytes().partition(b"<<<<<<< ")
    path.write_bytes(head + OWN + rest.partition(b">>>>>>> ")[2].partition(b"\n")[2])


@pytest.mark.usefixtures("left")
def test_markers_of_a_port_are_in_the_status_with_what_to_type(fork: Path) -> None:
    patches = json.loads(run("status", fork, "--json").stdout)["patches"]
    (ported,) = [patch for patch in patches if patch["id"] == "77"]
    assert (ported["state"], ported["edits"][0]["file"]) == ("conflict", DESK)
    assert "patchkit resolve 77 edit-1" in ported["edits"][0]["reason"]
    lines = run("status", fork).stdout.splitlines()
    index = lines.index("77  edit-1")
    assert lines[index + 1] == f"  --> {DESK}"
    line = (fork / "sglang" / DESK).read_text().splitlines().index("<<<<<<< found (patchkit 77 edit-1)") + 1
    assert lines[index + 2].startswith(f"  line {line}: edit the code between the markers")


@pytest.mark.usefixtures("left")
def test_a_conflict_of_a_port_is_not_resolved_while_its_markers_stand(fork: Path) -> None:
    before = everything(fork)
    assert "the conflict markers are still there" in run("resolve", fork, "77", "edit-1", code=3).output
    assert everything(fork) == before


def test_a_conflict_of_a_port_that_a_person_finished_is_recorded_and_reverted_with_it(
    fork: Path, left: bytes
) -> None:
    finished(fork)
    output = run("resolve", fork, "77", "edit-1").output
    assert "77 edit-1 is recorded as made by hand" in output
    assert f"Next: patchkit status {fork} shows what is left to resolve" in " ".join(output.split())
    assert "is already recorded" in run("resolve", fork, "77", "edit-1").output
    assert OWN in (fork / "sglang" / DESK).read_bytes()
    assert run("revert", fork, "77").output.startswith("Reverted: 77.\n")
    assert (fork / "sglang" / DESK).read_bytes() == left


@pytest.mark.usefixtures("left")
def test_a_conflict_that_a_port_did_not_leave_is_refused_with_what_to_type(fork: Path) -> None:
    output = " ".join(run("resolve", fork, "77", "edit-9", code=2).output.split())
    assert "77 has no conflict 'edit-9'" in output
    assert f"patchkit status {fork} lists the conflicts" in output


def test_a_conflict_of_a_port_is_given_up_and_the_rest_is_reverted_by_its_name(
    fork: Path, left: bytes
) -> None:
    run("resolve", fork, "77", "edit-1", "--give-up")
    assert (fork / "sglang" / DESK).read_bytes() == left.replace(*LENT)
    run("revert", fork, "77")
    assert (fork / "sglang" / DESK).read_bytes() == left


@pytest.mark.usefixtures("left")
@pytest.mark.parametrize(
    "text", [b"        due = (\n", b"        due = 1\nreturn due\n", b"        due = lambda a, a: 1\n"]
)
def test_what_does_not_compile_is_no_resolution_of_a_port(fork: Path, text: bytes) -> None:
    finished(fork)
    drifted(fork, (OWN, text))
    assert "not valid Python" in run("resolve", fork, "77", "edit-1", code=3).output


def test_of_two_conflicts_one_is_resolved_and_the_other_remains(main_line: Path, fork: Path) -> None:
    days = b"    days = 14\n"
    commit = changed(
        main_line, (b"self.today + self.days", b"self.today + self.days * 2"), (days, b"    days = 21\n")
    )
    drifted(fork, (b"self.today + self.days", b"self.later()"), (days, b"    days = 28\n"))
    run("port", commit, "--repo", main_line, "--onto", fork, "--markers", code=1)
    path = fork / "sglang" / DESK
    text = path.read_bytes()
    assert text.count(b"<<<<<<< ") == 2
    index = text.index(b"<<<<<<< ")
    end = text.index(b"\n", text.index(b">>>>>>> ")) + 1
    path.write_bytes(text[:index] + b"    days = 35\n" + text[end:])
    name = text[index:].split()[4].decode().rstrip(")")
    assert "is recorded as made by hand" in run("resolve", fork, "77", name).output


def test_the_last_conflict_of_a_port_is_given_up_with_no_advice_to_revert_what_is_not_there(
    main_line: Path, fork: Path
) -> None:
    commit = changed(main_line, (b"self.today + self.days", b"self.today + self.days * 2"))
    drifted(fork, (b"self.today + self.days", b"self.later()"))
    before = everything(fork)
    run("port", commit, "--repo", main_line, "--onto", fork, "--markers", code=1)
    output = " ".join(run("resolve", fork, "77", "edit-1", "--give-up").output.split())
    assert everything(fork) == before
    assert f"Next: patchkit status {fork}" in output
    assert "patchkit revert" not in output
    run("status", fork)


def test_a_port_is_reverted_by_its_name_and_a_name_that_nothing_has_is_refused(
    main_line: Path, fork: Path
) -> None:
    before = everything(fork)
    run("port", changed(main_line, LENT), "--repo", main_line, "--onto", fork)
    assert "no patch is called '78'" in run("revert", fork, "78", code=2).output
    run("revert", fork, "77")
    assert everything(fork) == before


def tracked(fork: Path) -> Path:
    git(fork.parent, "init", "-q", "fork")
    git(fork, "add", ".")
    git(fork, "commit", "-qm", "A fork")
    committing(open_tree(fork))
    return fork


def two_ports(
    main_line: Path, fork: Path, second: tuple[bytes, bytes], *how: str, why: str = "Tell them (#78)"
) -> None:
    """Port two commits of a range, or one after the other where ``how`` is nothing."""
    first = changed(main_line, LENT)
    then = changed(main_line, second, why=why)
    if "apart" in how:
        for commit in (first, then):
            run("port", commit, "--repo", main_line, "--onto", fork)
    else:
        run("port", f"{first}^..{then}", "--repo", main_line, "--onto", fork, *how)


FAR = (b"        return place(book)\n", b"        book.back = True\n        return place(book)\n")
BESIDE = (b"        reader.due = due\n", b"        reader.due = due\n        reader.told = True\n")
WAYS = [("apart",), (), ("--commit",)]


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("second", [FAR, BESIDE], ids=["far", "beside"])
@pytest.mark.parametrize("order", [("77", "78"), ("78", "77")])
def test_of_two_ports_each_is_reverted_alone_and_both_give_every_byte_back(
    main_line: Path, fork: Path, how: tuple[str, ...], second: tuple[bytes, bytes], order: tuple[str, str]
) -> None:
    tracked(fork)
    path = fork / "sglang" / DESK
    before = path.read_bytes()
    two_ports(main_line, fork, second, *how)
    both = SOURCES[DESK].replace(*LENT).replace(*second)
    assert path.read_bytes() == both
    assert run("revert", fork, order[0]).output.startswith(f"Reverted: {order[0]}.\n")
    old, new = LENT if order[0] == "77" else second
    assert path.read_bytes() == both.replace(
        new[len(old) :] if new.startswith(old) else new, b"" if new.startswith(old) else old
    )
    stands = path.read_bytes()
    # What is committed is known by its name while git's history has it.
    code, message = (0, "Nothing to revert") if "--commit" in how else (2, "no patch is called")
    assert message in run("revert", fork, order[0], code=code).output
    assert path.read_bytes() == stands
    assert run("revert", fork, order[1]).output.startswith(f"Reverted: {order[1]}.\n")
    assert path.read_bytes() == before


OVER = (b"        reader.due = due\n", b"        reader.due = due or 1\n")
USES = (b"        return due\n", b"        return later\n")


@pytest.mark.parametrize("how", WAYS)
def test_a_port_that_a_later_one_changed_is_not_reverted_alone(
    main_line: Path, fork: Path, how: tuple[str, ...]
) -> None:
    tracked(fork)
    before = everything(fork)
    two_ports(main_line, fork, OVER, *how)
    both = everything(fork)
    output = " ".join(run("revert", fork, "77", code=3).output.split())
    assert "78 changed the same code as 77, or depends on it" in output
    assert f"help: revert them together: patchkit revert {fork} 77 78" in output
    assert everything(fork) == both
    run("revert", fork, "77", "78")
    assert (fork / "sglang" / DESK).read_bytes() == SOURCES[DESK]
    assert set(everything(fork)) >= set(before)


def test_a_port_whose_name_a_later_one_uses_is_not_reverted_alone(main_line: Path, fork: Path) -> None:
    first = changed(main_line, (LENT[0], LENT[0] + b"        later = due + 1\n"))
    second = changed(main_line, USES, why="It is later (#78)")
    for commit in (first, second):
        run("port", commit, "--repo", main_line, "--onto", fork)
    both = everything(fork)
    assert "or depends on it" in run("revert", fork, "77", code=3).output
    assert everything(fork) == both
    run("revert", fork, "78")
    run("revert", fork, "77")
    assert (fork / "sglang" / DESK).read_bytes() == SOURCES[DESK]


@pytest.mark.parametrize("how", WAYS)
def test_two_ports_of_one_pull_request_are_reverted_by_its_name(
    main_line: Path, fork: Path, how: tuple[str, ...]
) -> None:
    tracked(fork)
    two_ports(main_line, fork, OVER, *how, why="Never nothing (#77)")
    run("revert", fork, "77")
    assert (fork / "sglang" / DESK).read_bytes() == SOURCES[DESK]


INSIDE = (
    (b"        return due\n", b"        if due > 9:\n            reader.late = True\n        return due\n"),
    (
        b"            reader.late = True\n",
        b"            reader.late = True\n            reader.told = True\n",
    ),
)


def test_a_port_inside_of_which_a_person_wrote_is_not_reverted(main_line: Path, fork: Path) -> None:
    drifted(
        fork, (b"        return due\n", b"        if due:\n            book.on = True\n        return due\n")
    )
    run("port", changed(main_line, INSIDE[0]), "--repo", main_line, "--onto", fork)
    drifted(fork, INSIDE[1])
    stands = everything(fork)
    assert "revert again" in " ".join(run("revert", fork, "77", code=3).output.split())
    assert everything(fork) == stands


def test_a_line_of_a_port_that_a_person_rewrote_is_reported(main_line: Path, fork: Path) -> None:
    run("port", changed(main_line, LENT, FAR), "--repo", main_line, "--onto", fork)
    drifted(fork, (b"        reader.due = due\n", b"        reader.due = due + 1\n"))
    stands = everything(fork)
    assert "edited after" in run("revert", fork, "77", code=3).output
    assert everything(fork) == stands


def test_between_two_ports_a_person_edits_and_each_is_reverted_alone(main_line: Path, fork: Path) -> None:
    own = (b"    days = 14\n", b"    days = 28\n")
    first, second = changed(main_line, LENT), changed(main_line, FAR, why="Tell them (#78)")
    run("port", first, "--repo", main_line, "--onto", fork)
    drifted(fork, own)
    run("port", second, "--repo", main_line, "--onto", fork, "--allow-dirty")
    path = fork / "sglang" / DESK
    run("revert", fork, "77")
    assert path.read_bytes() == SOURCES[DESK].replace(*own).replace(*FAR)
    run("revert", fork, "78")
    assert path.read_bytes() == SOURCES[DESK].replace(*own)


def test_a_port_made_again_after_its_file_was_put_back_is_reverted(main_line: Path, fork: Path) -> None:
    commit = changed(main_line, LENT)
    for _ in range(2):
        run("port", commit, "--repo", main_line, "--onto", fork)
        (fork / "sglang" / DESK).write_bytes(SOURCES[DESK])
    run("port", commit, "--repo", main_line, "--onto", fork)
    run("revert", fork, "77")
    assert (fork / "sglang" / DESK).read_bytes() == SOURCES[DESK]


def test_two_ports_of_a_file_that_is_no_python_are_reverted_one_by_one(main_line: Path, fork: Path) -> None:
    kernel, lines = "srt/kernel.cuh", b"".join(b"int v%d;\n" % n for n in range(9))
    for root in (main_line / "python", fork):
        (root / "sglang" / kernel).write_bytes(lines)
    git(main_line, "add", "-A")
    git(main_line, "commit", "-qm", "A kernel")
    for old, new, name in ((b"int v1;", b"long v1;", "77"), (b"int v7;", b"long v7;", "78")):
        commit = changed(main_line, (old, new), file=kernel, why=f"Longer (#{name})")
        run("port", commit, "--repo", main_line, "--onto", fork)
    run("revert", fork, "77")
    assert (fork / "sglang" / kernel).read_bytes() == lines.replace(b"int v7;", b"long v7;")


def test_behind_a_conflict_that_is_marked_nothing_of_a_range_is_ported(main_line: Path, fork: Path) -> None:
    drifted(fork, (b"self.today + self.days", b"self.later()"))
    before = (fork / "sglang" / DESK).read_bytes()
    first = changed(main_line, (b"self.today + self.days", b"self.today + self.days * 2"))
    then = changed(main_line, FAR, why="Tell them (#78)")
    words = ("port", f"{first}^..{then}", "--repo", main_line, "--onto", fork, "--markers")
    assert answer_of(*words, "--dry-run", code=1)["trees"][0]["not_ported"] == ["78"]
    output = run(*words, code=1).output
    assert "78  Tell them: not ported; resolve the conflicts first" in output
    assert FAR[1] not in (fork / "sglang" / DESK).read_bytes()
    run("revert", fork, "77")
    assert (fork / "sglang" / DESK).read_bytes() == before


def test_an_edit_that_gets_no_markers_says_what_to_do(main_line: Path, fork: Path) -> None:
    fresh = "srt/fresh.py"
    (main_line / "python" / "sglang" / fresh).write_bytes(b"x = 1\n")
    commit = changed(main_line, LENT)
    (fork / "sglang" / fresh).write_bytes(b"y = 2\n")
    output = " ".join(
        run("port", commit, "--repo", main_line, "--onto", fork, "--markers", code=1).output.split()
    )
    assert f"! {fresh}: conflict" in output
    assert "it has no conflict markers: make this edit by hand" in output
    assert (fork / "sglang" / fresh).read_bytes() == b"y = 2\n"
    assert LENT[1] in (fork / "sglang" / DESK).read_bytes()


def test_markers_name_an_edit_as_the_ledger_does_where_another_file_comes_first(
    main_line: Path, fork: Path
) -> None:
    early = "srt/aisle.py"
    (main_line / "python" / "sglang" / early).write_bytes(b"x = 1\n")
    commit = changed(main_line, (b"self.today + self.days", b"self.today + self.days * 2"))
    drifted(fork, (b"self.today + self.days", b"self.later()"))
    before = everything(fork)
    run("port", commit, "--repo", main_line, "--onto", fork, "--markers", code=1)
    assert b"(patchkit 77 edit-2)" in (fork / "sglang" / DESK).read_bytes()
    finished(fork)
    run("resolve", fork, "77", "edit-2")
    run("revert", fork, "77")
    assert everything(fork) == before


@pytest.mark.parametrize("order", list(itertools.permutations(("77", "t-shut", "t-open"))))
def test_a_port_between_patches_is_reverted_in_any_order(
    main_line: Path, fork: Path, tmp_path: Path, order: tuple[str, ...]
) -> None:
    folder = tmp_path / "patches"
    for name, find, code in (
        ("t-shut", "book.out = False", "book.out = None"),
        ("t-open", "due = self.today + self.days", "due = self.today + self.days * 3"),
    ):
        at = f"{DESK}::Desk.{'take' if name == 't-shut' else 'lend'}"
        (folder / name).mkdir(parents=True)
        (folder / name / "patch.toml").write_text(
            patch_text(name, statement("rewrite", "it", at, find, code))
        )
    run("apply", fork, "t-shut", "--patches", folder)
    run("port", changed(main_line, LENT), "--repo", main_line, "--onto", fork)
    run("apply", fork, "t-open", "--patches", folder)
    signs = {"77": b"reader.due", "t-shut": b"book.out = None", "t-open": b"self.days * 3"}
    for last, name in enumerate(order):
        run("revert", fork, name, "--patches", folder)
        text = (fork / "sglang" / DESK).read_bytes()
        assert [sign in text for sign in map(signs.__getitem__, order)] == [
            n > last for n in range(len(order))
        ]
    assert (fork / "sglang" / DESK).read_bytes() == SOURCES[DESK]


UNPARSED = {
    "of Python 2": (b'print "py2"\n', 1),
    "an open bracket": (b"fine = 1\nopen = (1,\n", 2),
    "a NUL": (b"fine = 1\nnul = '\0'\n", 1),
    "another encoding than its coding line's": (b"# coding: ascii\nname = '\xc3\xa9'\n", 1),
    "an unknown encoding": (b"# coding: nonsense\n", 1),
    "a number of too many digits": (b"fine = 1\nmany = 1" + b"0" * 4400 + b"\n", 2),
    "a return outside of a function": (b"fine = 1\nreturn 1\n", 2),
}


@pytest.mark.parametrize(
    ("what", "options"),
    crossed(
        tuple(UNPARSED),
        ((), ("--dry-run",), ("--keep-going",), ("--markers",), ("--commit",), ("-o", "drafted")),
        one_in=3,
    ),
)
def test_a_new_file_that_is_no_python_is_a_finding(
    main_line: Path, fork: Path, tmp_path: Path, what: str, options: tuple[str, ...]
) -> None:
    content, line = UNPARSED[what]
    (main_line / "python" / "sglang" / "srt" / "new.py").write_bytes(content)
    commit = changed(main_line, LENT)
    git(fork, "init", "-q")
    git(fork, "add", ".")
    git(fork, "commit", "-qm", "A fork")
    committing(open_tree(fork))
    words = ("port", commit, "--repo", main_line, "--onto", fork)
    options = tuple(str(tmp_path / option) if option == "drafted" else option for option in options)
    answer = answer_of(*words, *options, code=1)
    (finding,) = answer["trees"][0]["changes"][0]["findings"]
    assert (finding["rule"], finding["file"], finding["line"]) == ("PV101", "srt/new.py", line)
    assert finding["message"].startswith("not valid Python: ")
    made = None if "--dry-run" in options else content
    path = fork / "sglang" / "srt" / "new.py"
    assert (path.read_bytes() if path.exists() else None) == made


def test_an_integer_that_python_cannot_write_in_decimal_is_refused(main_line: Path, fork: Path) -> None:
    commit = changed(main_line, LENT)
    drifted(fork, (b"    days = 14", b"    days = 14\n    mask = 0x1" + b"0" * 4000))
    before = everything(fork)
    refused = run("port", commit, "--repo", main_line, "--onto", fork, code=4)
    assert refused.stderr.startswith(f"error: {DESK} contains an integer of more than 14000 bits\nhelp: ")
    assert everything(fork) == before


def test_a_file_that_was_no_python_is_a_finding_beside_those_of_the_others(
    main_line: Path, fork: Path
) -> None:
    commit = changed(
        main_line, LENT, (b"        return place(book)\n", b"        return place(book, row=1)\n")
    )
    (main_line / "python" / "sglang" / SHELF).write_bytes(SOURCES[SHELF] + b"\n\nmore = 1\n")
    git(main_line, "commit", "-qa", "--amend", "--no-edit")
    drifted(fork, (b"def stamp(book):", b"def stamp(book:"), file=SHELF)
    words = ("HEAD", "--repo", main_line, "--onto", fork)
    answer = answer_of("port", *words, code=1)
    (finding,) = answer["trees"][0]["changes"][0]["findings"]
    assert (finding["rule"], finding["file"], finding["line"]) == ("PV101", SHELF, 5)
    assert b"more = 1" in (fork / "sglang" / SHELF).read_bytes()
    assert commit


def test_a_file_that_a_change_makes_python_again_is_no_finding(main_line: Path, fork: Path) -> None:
    broken = SOURCES[SHELF].replace(b"def stamp(book):", b"def stamp(book:")
    for package in (main_line / "python" / "sglang", fork / "sglang"):
        (package / SHELF).write_bytes(broken)
    git(main_line, "commit", "-qam", "Broken")
    (main_line / "python" / "sglang" / SHELF).write_bytes(SOURCES[SHELF])
    changed(main_line, (b"        return place(book)\n", b"        return place(book, row=1)\n"))
    answer = answer_of("port", "HEAD", "--repo", main_line, "--onto", fork)
    assert answer["trees"][0]["changes"][0]["findings"] == []
    assert (fork / "sglang" / SHELF).read_bytes() == SOURCES[SHELF]


def test_in_many_trees_a_file_that_is_no_python_is_a_finding_in_each(main_line: Path) -> None:
    git(main_line, "branch", "old")
    (main_line / "python" / "sglang" / "srt" / "new.py").write_bytes(b'print "py2"\n')
    commit = changed(main_line, LENT)
    words = ("port", commit, "--repo", main_line, "--onto", "old", "--onto", "old^0")
    answer = answer_of(*words, code=1)
    rules = [each["rule"] for tree in answer["trees"] for each in tree["changes"][0]["findings"]]
    assert rules == ["PV101", "PV101"]


CLONES = "Only what port --commit commits can be reverted in a clone."


def test_a_port_in_git_without_a_commit_names_what_a_clone_can_revert(
    main_line: Path, fork: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(
        fork.parent
    )  # The command that adds files names the folder from here if that is shorter.
    commit = changed(main_line, LENT)
    words = ("port", commit, "--repo", main_line, "--onto", fork)
    assert "Next" not in run(*words).stdout
    run("revert", fork)
    git(fork, "init", "-q")
    git(fork, "add", ".")
    git(fork, "commit", "-qm", "A fork")
    committing(open_tree(fork))
    assert CLONES not in run(*words, "--dry-run").stdout
    output, _, adding = " ".join(run(*words).stdout.split()).partition(
        " git commit -a leaves new files out: "
    )
    assert output.endswith(f"Next: patchkit revert {fork} 77 reverts the change. {CLONES}")
    assert adding == f"git -C {fork.name} add patchkit.lock adds them."
    assert "Next" not in run(*words).stdout
    run("revert", fork, "77")
    assert CLONES not in run(*words, "--commit").stdout


def test_a_commit_of_files_outside_the_package_is_not_in_the_command_that_reverts_its_series(
    main_line: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", str(main_line), "fork")
    changed(main_line, LENT)
    (main_line / "NOTES.md").write_text("own\n")
    git(main_line, "add", ".")
    git(main_line, "commit", "-qm", "Notes (#78)")
    fork = tmp_path / "fork"
    output = " ".join(run("port", "main~2..main", "--repo", main_line, "--onto", fork).stdout.split())
    command, _, _ = output.partition("Next: patchkit ")[2].partition(" reverts the change")
    run(*command.split())
    assert git(fork, "status", "--porcelain") == "?? NOTES.md\n"


def test_markers_in_git_name_the_first_conflict_and_what_a_clone_can_revert(
    main_line: Path, fork: Path
) -> None:
    commit = changed(main_line, LENT, (b"self.today + self.days", b"self.today + self.days * 2"))
    drifted(fork, (b"self.today + self.days", b"self.later()"))
    git(fork, "init", "-q")
    git(fork, "add", ".")
    git(fork, "commit", "-qm", "A fork")
    output = run("port", commit, "--repo", main_line, "--onto", fork, "--markers", code=1).stdout
    _, _, following = " ".join(output.split()).partition("Next: ")
    assert following.startswith(f"patchkit resolve {fork} 77 ")
    assert following.endswith(CLONES)
