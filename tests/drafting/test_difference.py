"""Diffs as they occur: mangled by mail programs, truncated, of files other than Python, in a series."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

import pytest
from support.toys import everything, git

from patchkit import api
from patchkit.errors import UsageError
from patchkit.patchset import load
from patchkit.plan.build import make_plan
from patchkit.plan.status import State

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.api import DraftedPatch
    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")
FILE = "srt/shelf.py"
BEFORE = """\
import os


def lend(book):
    log(book)
    return book.days


def fetch(book):
    log(book)
    return book
"""


def put(tree: CheckoutTree, text: str | bytes, file: str = FILE) -> None:
    (tree.package / file).write_bytes(text if isinstance(text, bytes) else text.encode())


def diff(before: str, after: str, file: str = FILE) -> str:
    name = f"python/sglang/{file}"
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    marked = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return "".join(marked)


def draft(tree: CheckoutTree, folder: Path, *diffs: str, **options: Any) -> DraftedPatch:
    return api.new(tree, "own", folder / "own", diff=diffs, **options)


def made(tree: CheckoutTree, drafted: DraftedPatch) -> dict[str, bytes | None]:
    """Return what a draft makes of each file that it changes, without the comments that it leaves."""
    patch = load.patches((drafted.file.parent,)).get("own")
    plan = make_plan(tree, (patch,))
    assert [status.state for status in plan.patches] == [State.PENDING]
    note = re.compile(rb"^[ \t]*# patchkit own: .*\r?\n", re.MULTILINE)
    return {change.file: change.after and note.sub(b"", change.after) for change in plan.changes}


def test_a_diff_whose_line_ends_a_mail_program_changed_is_read(tree: CheckoutTree, tmp_path: Path) -> None:
    put(tree, BEFORE)
    after = BEFORE.replace("book.days", "14")
    drafted = draft(tree, tmp_path, diff(BEFORE, after).replace("\n", "\r\n"))
    assert drafted.exact
    assert made(tree, drafted) == {FILE: after.encode()}


def test_a_file_with_carriage_returns_keeps_them(tree: CheckoutTree, tmp_path: Path) -> None:
    before, after = (text.replace("\n", "\r\n") for text in (BEFORE, BEFORE.replace("book.days", "14")))
    put(tree, before)
    drafted = draft(tree, tmp_path, diff(before, after))
    assert drafted.exact
    assert made(tree, drafted) == {FILE: after.encode()}


@pytest.mark.parametrize("ends", [("", "\n"), ("\n", ""), ("", "")], ids=["comes", "goes", "never-there"])
def test_a_file_without_a_newline_at_its_end_is_made_exactly(
    tree: CheckoutTree, tmp_path: Path, ends: tuple[str, str]
) -> None:
    before, after = (
        BEFORE.rstrip() + ends[0],
        BEFORE.replace("return book\n", "return None\n").rstrip() + ends[1],
    )
    put(tree, before)
    drafted = draft(tree, tmp_path, diff(before, after))
    assert drafted.exact
    assert made(tree, drafted) == {FILE: after.encode()}


def test_two_diffs_for_one_file_follow_one_another(tree: CheckoutTree, tmp_path: Path) -> None:
    put(tree, BEFORE)
    middle = BEFORE.replace("book.days", "14")
    after = middle.replace("14", "21")
    drafted = draft(tree, tmp_path, diff(BEFORE, middle), diff(middle, after))
    assert drafted.exact
    assert made(tree, drafted) == {FILE: after.encode()}
    together = api.new(tree, "own", tmp_path / "one", diff=diff(BEFORE, middle) + diff(middle, after))
    assert made(tree, together) == {FILE: after.encode()}


def test_a_base_is_in_none_of_the_edits(tree: CheckoutTree, tmp_path: Path) -> None:
    put(tree, BEFORE)
    middle = BEFORE.replace("book.days", "14")
    after = middle.replace("    return book\n", "    return None\n")
    drafted = draft(tree, tmp_path, diff(middle, after), base=[diff(BEFORE, middle)])
    assert drafted.exact
    assert "14" not in drafted.file.read_text()
    put(tree, middle)
    assert made(tree, drafted) == {FILE: after.encode()}


def test_a_file_that_goes_is_taken_away(tree: CheckoutTree, tmp_path: Path) -> None:
    put(tree, BEFORE)
    gone = f"--- a/python/sglang/{FILE}\n+++ /dev/null\n" + "".join(
        diff(BEFORE, "").splitlines(keepends=True)[2:]
    )
    drafted = draft(tree, tmp_path, gone)
    assert drafted.exact
    assert made(tree, drafted) == {FILE: None}
    patches = load.patches((drafted.file.parent,))
    before = everything(tree.package)
    api.apply(tree, patches, ["own"], allow_dirty=True)
    assert not (tree.package / FILE).exists()
    api.revert(tree, patches, ["own"])
    assert {name: text for name, text in everything(tree.package).items() if name in before} == before


def test_a_file_that_is_renamed_goes_here_and_comes_there(tree: CheckoutTree, tmp_path: Path) -> None:
    put(tree, BEFORE)
    after = BEFORE.replace("book.days", "14")
    head = (
        f"diff --git a/python/sglang/{FILE} b/python/sglang/srt/rack.py\nsimilarity index 90%\n"
        f"rename from python/sglang/{FILE}\nrename to python/sglang/srt/rack.py\n"
    )
    text = head + diff(BEFORE, after).replace("b/python/sglang/srt/shelf.py", "b/python/sglang/srt/rack.py")
    drafted = draft(tree, tmp_path, text)
    assert drafted.exact
    assert made(tree, drafted) == {FILE: None, "srt/rack.py": after.encode()}


def test_what_a_fork_changed_in_a_file_that_is_renamed_stays(tree: CheckoutTree, tmp_path: Path) -> None:
    put(tree, BEFORE)
    head = (
        f"diff --git a/python/sglang/{FILE} b/python/sglang/srt/rack.py\nsimilarity index 100%\n"
        f"rename from python/sglang/{FILE}\nrename to python/sglang/srt/rack.py\n"
    )
    drafted = draft(tree, tmp_path, head)
    put(tree, BEFORE.replace("book.days", "book.days + 1"))
    plan = make_plan(tree, (load.patches((drafted.file.parent,)).get("own"),))
    assert plan.patches[0].state is State.PENDING
    after = {change.file: (change.after or b"").decode() for change in plan.changes}
    assert after[FILE] == ""
    assert "return book.days + 1" in after["srt/rack.py"]


def test_a_rename_alone_is_one_too(tree: CheckoutTree, tmp_path: Path) -> None:
    put(tree, BEFORE)
    head = (
        f"diff --git a/python/sglang/{FILE} b/python/sglang/srt/rack.py\nsimilarity index 100%\n"
        f"rename from python/sglang/{FILE}\nrename to python/sglang/srt/rack.py\n"
    )
    assert made(tree, draft(tree, tmp_path, head)) == {FILE: None, "srt/rack.py": BEFORE.encode()}


def test_files_that_are_no_python(tree: CheckoutTree, tmp_path: Path) -> None:
    texts = {
        "srt/kernel.cuh": ("int a;\nint b;\n", "int a;\nlong b;\n"),
        "srt/sizes.json": ('{"a": 1,\n "b": 2}', '{"a": 1,\n "b": 3}'),
    }
    for file, (before, _) in texts.items():
        put(tree, before, file)
    drafted = draft(tree, tmp_path, *(diff(*pair, file) for file, pair in texts.items()))
    assert (drafted.exact, drafted.edits) == (True, 2)
    assert made(tree, drafted) == {file: after.encode() for file, (_, after) in texts.items()}


def test_what_no_edit_says_is_left_out_and_named(tree: CheckoutTree, tmp_path: Path) -> None:
    put(tree, BEFORE)
    after = BEFORE.replace("book.days", "14")
    others = (
        "diff --git a/python/sglang/srt/a.bin b/python/sglang/srt/a.bin\nindex 1..2 100644\n"
        "Binary files a/python/sglang/srt/a.bin and b/python/sglang/srt/a.bin differ\n"
        "diff --git a/README.md b/README.md\n--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-a\n+b\n"
        f"diff --git a/python/sglang/{FILE} b/python/sglang/{FILE}\nold mode 100644\nnew mode 100755\n"
    )
    drafted = draft(tree, tmp_path, others + diff(BEFORE, after))
    assert not drafted.exact
    assert [word in one for word, one in zip(("binary", "mode", "outside"), drafted.todo, strict=True)] == [
        True
    ] * 3
    assert all(one in drafted.file.read_text() for one in drafted.todo)
    assert made(tree, drafted) == {FILE: after.encode()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            diff(BEFORE.replace("log(book)", "tell(book)"), BEFORE.replace("log(book)", "say(book)")),
            "are not in the tree",
        ),
        (diff(BEFORE.replace("log(book)", "tell(book)"), BEFORE), "already has the change of @@ "),
        (diff(BEFORE, BEFORE.replace("14", "1")) or " ", "changes no file"),
        (
            diff(BEFORE, BEFORE.replace("os", "re")).rsplit("\n", 3)[0],
            "fewer lines than its header specifies",
        ),
        (diff(BEFORE, BEFORE.replace("os", "re"), "srt/nowhere.py"), "no such file in the tree"),
        (f"--- /dev/null\n+++ b/python/sglang/{FILE}\n@@ -0,0 +1 @@\n+a = 1\n", "the tree contains it"),
        (
            f"--- a/python/sglang/{FILE}\n+++ b/python/sglang/{FILE}\n@@ what @@\n",
            "is not the header of a hunk",
        ),
        (
            "--- a/python/sglang/../../x.py\n+++ b/python/sglang/../../x.py\n@@ -1 +1 @@\n-a\n+b\n",
            "leads out",
        ),
    ],
    ids=["other-tree", "changed-tree", "empty", "cut-off", "no-file", "file-there", "no-hunk", "outside"],
)
def test_a_diff_that_cannot_be_is_refused_and_nothing_is_written(
    tree: CheckoutTree, tmp_path: Path, text: str, message: str
) -> None:
    put(tree, BEFORE)
    before = everything(tmp_path)
    with pytest.raises(UsageError, match=message):
        draft(tree, tmp_path, text)
    assert everything(tmp_path) == before


def test_a_diff_of_half_a_megabyte_is_drafted(tree: CheckoutTree, tmp_path: Path) -> None:
    lines = (f'"shelf {number}": {number % 7},{" " * 90}"of wood": true,\n' for number in range(3800))
    before = "".join(lines)
    after = before.replace(": 3,", ": 4,")
    put(tree, before, "srt/shelves.json")
    text = diff(before, after, "srt/shelves.json")
    assert len(text) > 500_000
    drafted = draft(tree, tmp_path, text)
    assert drafted.exact
    assert made(tree, drafted) == {"srt/shelves.json": after.encode()}


def test_a_mail_of_git_says_what_the_patch_is_for(tree: CheckoutTree, tmp_path: Path) -> None:
    put(tree, BEFORE)
    mail = (
        f"From {'a' * 40} Mon Sep 17 00:00:00 2001\nFrom: One <one@example.org>\nDate: Thu, 1 Jan 2026\n"
        "Subject: [PATCH 1/2] Lend for two weeks (#123)\n\nReaders forget.\n\nSigned-off-by: One\n---\n"
        f" {FILE} | 2 +-\n\ndiff --git a/python/sglang/{FILE} b/python/sglang/{FILE}\n"
    )
    drafted = draft(tree, tmp_path, mail + diff(BEFORE, BEFORE.replace("book.days", "14")))
    patch = load.patches((drafted.file.parent,)).get("own")
    assert (patch.title, patch.why.strip()) == ("Lend for two weeks", "Readers forget.")
    assert patch.upstream.endswith("/pull/123")
    assert patch.upstream_commit == "a" * 40


def test_a_file_of_several_mails_is_one_patch_with_the_facts_of_the_last(
    checkout: CheckoutTree, tmp_path: Path
) -> None:
    put(checkout, BEFORE)
    git(checkout.root, "add", "-A")
    git(checkout.root, "commit", "-qm", "A shelf")
    put(checkout, BEFORE.replace("book.days", "14"))
    git(checkout.root, "commit", "-qam", "Two weeks")
    after = BEFORE.replace("book.days", "15").replace("    return book\n", "    return None\n")
    put(checkout, after)
    git(checkout.root, "commit", "-qam", "Nothing is fetched (#7)\n\nNobody did.")
    series = git(checkout.root, "format-patch", "--stdout", "--cover-letter", "HEAD~2")
    put(checkout, BEFORE)
    drafted = draft(checkout, tmp_path, series)
    assert drafted.exact
    assert made(checkout, drafted) == {FILE: after.encode()}
    patch = load.patches((drafted.file.parent,)).get("own")
    assert (patch.title, patch.why.strip()) == ("Nothing is fetched", "Nobody did.")


def test_a_range_of_commits_is_one_patch(checkout: CheckoutTree, tmp_path: Path) -> None:
    put(checkout, BEFORE)
    git(checkout.root, "add", "-A")
    git(checkout.root, "commit", "-qm", "A shelf")
    put(checkout, BEFORE.replace("book.days", "14"))
    git(checkout.root, "commit", "-qam", "Two weeks")
    after = BEFORE.replace("book.days", "14").replace("    return book\n", "    return None\n")
    put(checkout, after)
    git(checkout.root, "commit", "-qam", "Nothing is fetched (#7)\n\nNobody did.")
    drafted = api.new(checkout, "own", tmp_path / "own", commit="HEAD~2..HEAD")
    assert drafted.exact
    put(checkout, BEFORE)
    assert made(checkout, drafted) == {FILE: after.encode()}
    patch = load.patches((drafted.file.parent,)).get("own")
    assert (patch.title, patch.why.strip()) == ("Nothing is fetched", "Nobody did.")


def test_progress_names_the_drafted_file(tree: CheckoutTree, tmp_path: Path) -> None:
    texts = []
    for file in (FILE, "srt/cellar.py"):
        put(tree, BEFORE, file)
        texts.append(diff(BEFORE, BEFORE.replace("book.days", "14"), file))
    calls: list[tuple[str, int, int]] = []
    draft(tree, tmp_path, *texts, watch=lambda *progress: calls.append(progress))
    assert calls == [(f"files: drafting {FILE}", 0, 2), ("files: drafting srt/cellar.py", 1, 2)]
