"""``patchkit port`` with several patches: a folder or mailbox goes in, and a series for the new tree comes out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from cli.test_port import SOURCES, run
from click.testing import CliRunner
from support.toys import everything, git, write_package

from patchkit.cli import main, schemas
from patchkit.transaction.conflicts import conflicts_in
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


DESK = "python/sglang/srt/desk.py"
SHELF = "python/sglang/srt/shelf.py"
TEST = "test/run_desk.py"
README = "README.md"
LONGER = (DESK, "    days = 14\n", "    days = 21\n")
NOTED = (
    DESK,
    "        reader.books.append(book)\n",
    "        reader.books.append(book)\n        reader.due = due\n",
)
AGAIN = (DESK, "        reader.due = due\n", "        reader.due = due or 1\n")
PLACED = (SHELF, "    return row\n", "    return row or 1\n")
TESTED = (TEST, "lend(1)\n", "lend(1)\ntake(1)\n")


def answer_of(*arguments: object, code: int = 0) -> Any:
    """Return the answer for the one tree."""
    answer = json.loads(run("port", *arguments, "--json", code=code).stdout)
    msgspec.convert(answer, schemas.ANSWERS["port"])
    (tree,) = answer["trees"]
    return tree


def repository(root: Path) -> Path:
    write_package(root / "python" / "sglang", SOURCES)
    (root / "test").mkdir()
    (root / TEST).write_text("from desk import lend, take\nlend(1)\nassert 1\n")
    (root / README).write_text("A desk\n")
    git(root.parent, "init", "-q", "-b", "main", root.name)
    for key, value in (("user.name", "A Maintainer"), ("user.email", "maintainer@example.org")):
        git(root, "config", key, value)
    git(root, "add", ".")
    git(root, "commit", "-qm", "As it was")
    git(root, "tag", "v0.5.12")
    return root


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    return repository(tmp_path / "theirs")


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    """A fork that drifted."""
    root = repository(tmp_path / "fork")
    edit(root, (DESK, "        due = self.today", "        note(book)\n        due = self.today"))
    edit(root, (DESK, "import place\n", "import place\n\n\ndef note(book):\n    book.noted = True\n"))
    edit(root, (TEST, "assert 1\n", "assert 1\nassert 2\n"))
    git(root, "commit", "-qam", "Ours")
    return root


def edit(root: Path, change: tuple[str, str, str]) -> None:
    file, old, new = change
    text = (root / file).read_text()
    assert text.count(old) == 1, old
    (root / file).write_text(text.replace(old, new))


def commits(root: Path, *changes: tuple[tuple[str, str, str], ...]) -> str:
    """Commit changes, and return the range of the commits."""
    start = git(root, "rev-parse", "HEAD").strip()
    for number, parts in enumerate(changes, 1):
        for part in parts:
            edit(root, part)
        why = "\n\nBecause." if number % 2 else ""
        person = "Jörg Müller <joerg@example.org>"
        git(root, "add", "-A")
        git(
            root,
            "commit",
            "-qm",
            f"Ändere {number}{why}",
            f"--author={person}",
            f"--date=@{1000 + number} +0300",
        )
    return f"{start}..HEAD"


def folder_of(root: Path, named: str, folder: Path) -> Path:
    """Write the commits of a range as a folder of mails."""
    git(root, "format-patch", "-q", "-o", str(folder), named)
    return folder


def read(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir()) if path.is_file()}


def subjects(root: Path) -> list[str]:
    return git(root, "log", "--reverse", "--format=%an <%ae> %at %s", "v0.5.12..").splitlines()


def messages(root: Path, count: int) -> list[str]:
    """Return the last messages without the trailers of a port."""
    found = git(root, "log", "--reverse", f"-{count}", "-z", "--format=%B").strip("\0").split("\0")
    kept = (
        [line for line in each.splitlines() if not line.startswith(("Patchkit-Port", "(cherry"))]
        for each in found
    )
    return ["\n".join(lines).strip() for lines in kept]


def test_a_folder_becomes_one_commit_each_with_its_author_date_and_message_and_its_tests(
    theirs: Path, fork: Path, tmp_path: Path
) -> None:
    given = folder_of(theirs, commits(theirs, (NOTED, TESTED), (LONGER,)), tmp_path / "given")
    tree = answer_of(given, "--from", "v0.5.12", "--repo", theirs, "--onto", fork, "--commit")
    assert subjects(fork)[1:] == [f"Jörg Müller <joerg@example.org> {1000 + n} Ändere {n}" for n in (1, 2)]
    assert [each["outcome"] for each in tree["changes"][0]["outside"]] == ["landed"]
    assert (fork / TEST).read_text() == "from desk import lend, take\nlend(1)\ntake(1)\nassert 1\nassert 2\n"
    assert TEST in git(fork, "show", "--name-only", "--format=", "HEAD^").split()
    assert git(fork, "status", "--porcelain") == ""


def test_the_series_comes_back_with_its_names_and_git_am_makes_what_port_made(
    theirs: Path, fork: Path, tmp_path: Path
) -> None:
    given = folder_of(
        theirs, commits(theirs, (NOTED, TESTED), (AGAIN, PLACED), (LONGER,)), tmp_path / "given"
    )
    git(fork, "branch", "plain")
    run(
        "port",
        given,
        "--from",
        "0.5.12",
        "--repo",
        theirs,
        "--onto",
        fork,
        "--commit",
        "-o",
        tmp_path / "new",
    )
    assert read(tmp_path / "new").keys() == read(given).keys()
    git(fork, "switch", "-q", "plain")
    git(fork, "am", "-q", *map(str, sorted((tmp_path / "new").iterdir())))
    difference = git(fork, "diff", "--stat", "main", "--", ".", ":!patchkit.lock")
    assert difference == ""
    assert subjects(fork)[1:] == [f"Jörg Müller <joerg@example.org> {1000 + n} Ändere {n}" for n in (1, 2, 3)]
    assert messages(fork, 3) == ["Ändere 1\n\nBecause.", "Ändere 2", "Ändere 3\n\nBecause."]
    git(fork, "switch", "-q", "main")
    assert messages(fork, 3) == ["Ändere 1\n\nBecause.", "Ändere 2", "Ändere 3\n\nBecause."]


def test_a_series_is_written_for_a_ref_without_a_checkout(theirs: Path, fork: Path, tmp_path: Path) -> None:
    given = folder_of(theirs, commits(theirs, (NOTED, TESTED), (LONGER,)), tmp_path / "given")
    git(theirs, "fetch", "-q", str(fork), "main:their-fork")
    before = everything(fork)
    run("port", given, "--from", "v0.5.12", "--repo", theirs, "--onto", "their-fork", "-o", tmp_path / "new")
    assert everything(fork) == before
    git(fork, "am", "-q", *map(str, sorted((tmp_path / "new").iterdir())))
    assert "take(1)" in (fork / TEST).read_text()


def test_the_file_series_has_the_order_and_keeps_its_comments(
    theirs: Path, fork: Path, tmp_path: Path
) -> None:
    given = tmp_path / "given"
    given.mkdir()
    commits(theirs, (NOTED,), (AGAIN,), (LONGER,))
    (given / "a").mkdir()
    for name, ref in (("z-first", "HEAD~2"), ("a/b-last", "HEAD~1"), ("c-already", "HEAD")):
        (given / f"{name}.patch").write_text("About it.\n\n" + git(theirs, "diff", f"{ref}^", ref))
    (given / "series").write_text("# ours\nz-first.patch -p1\n\na/b-last.patch # why\nc-already.patch\n")
    edit(fork, LONGER)
    git(fork, "commit", "-qam", "Longer")
    tree = answer_of(given, "--from", "v0.5.12", "--repo", theirs, "--onto", fork, "-o", tmp_path / "new")
    assert [each["id"] for each in tree["changes"]] == ["z-first", "b-last", "c-already"]
    assert (tmp_path / "new" / "a" / "b-last.patch").is_file()
    new = read(tmp_path / "new")
    assert new["series"] == "# ours\nz-first.patch -p1\n\na/b-last.patch # why\n"
    assert new.keys() == {"series", "z-first.patch"}
    assert new["z-first.patch"].startswith(f"About it.\n\ndiff --git a/{DESK} b/{DESK}\n")
    git(fork, "stash", "-q", "-u")
    git(fork, "apply", *(str(tmp_path / "new" / name) for name in ("z-first.patch", "a/b-last.patch")))
    assert "reader.due = due or 1" in (fork / DESK).read_text()


LAYOUTS = {
    "of a source archive": ("sglang-0.5.12.orig/", "sglang-0.5.12/", ""),
    "of a source archive with signs": ("a/sglang-0.5.12.orig/", "b/sglang-0.5.12.orig/", ""),
    "without signs": ("", "", ""),
    "of the folder python": ("a/", "b/", "python/"),
    "of site-packages": ("a/usr/lib/python3/site-packages/", "b/usr/lib/python3/site-packages/", "python/"),
    "of the package": ("a/", "b/", "python/sglang/"),
    "of the package without signs": ("", "", "python/sglang/"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_prefix_is_found_and_comes_back(theirs: Path, fork: Path, tmp_path: Path, layout: str) -> None:
    old, new, stripped = LAYOUTS[layout]
    named = commits(theirs, (NOTED, PLACED))
    text = git(theirs, "diff", "--src-prefix=a/", "--dst-prefix=b/", named)
    lines = [line for line in text.split("\n") if not line.startswith(("diff ", "index "))]
    text = (
        "\n".join(lines).replace(f"--- a/{stripped}", f"--- {old}").replace(f"+++ b/{stripped}", f"+++ {new}")
    )
    (tmp_path / "it.patch").write_text(text)
    run(
        *("port", tmp_path / "it.patch", "--from", "v0.5.12", "--repo", theirs, "--onto", fork),
        *("-o", tmp_path / "new"),
    )
    assert "reader.due = due" in (fork / DESK).read_text()
    written = (tmp_path / "new" / "it.patch").read_text()
    file = DESK.removeprefix(stripped)
    assert f"\n--- {old}{file}\n+++ {new}{file}\n" in written


def test_a_test_folder_named_as_the_package_is_none(theirs: Path, fork: Path, tmp_path: Path) -> None:
    for root in (theirs, fork):
        (root / "test" / "srt").mkdir()
        (root / "test" / "srt" / "desk.py").write_text("a = 1\n")
        git(root, "add", ".")
        git(root, "commit", "-qm", "A test")
    start = git(theirs, "rev-parse", "HEAD").strip()
    commits(theirs, (("test/srt/desk.py", "a = 1\n", "a = 2\n"),))
    (tmp_path / "it.patch").write_text(git(theirs, "diff", start))
    before = (fork / DESK).read_bytes()
    run("port", tmp_path / "it.patch", "--from", start, "--repo", theirs, "--onto", fork)
    assert (fork / "test" / "srt" / "desk.py").read_text() == "a = 2\n"
    assert (fork / DESK).read_bytes() == before


def test_a_kernel_beside_the_package_does_not_make_its_folder_the_package(
    theirs: Path, tmp_path: Path
) -> None:
    kernel = "sgl-kernel/csrc/moe/topk.cu"
    (theirs / kernel).parent.mkdir(parents=True)
    (theirs / kernel).write_text("int a;\n")
    (theirs / "sgl-kernel" / "csrc" / "moe" / "b.cu").write_text("int b;\n")
    git(theirs, "add", ".")
    git(theirs, "commit", "-qm", "Kernels")
    start = git(theirs, "rev-parse", "HEAD").strip()
    commits(theirs, (NOTED, (kernel, "a;", "c;"), ("sgl-kernel/csrc/moe/b.cu", "b;", "d;")))
    (tmp_path / "it.patch").write_text(git(theirs, "diff", start))
    wheel = write_package(tmp_path / "site" / "sglang", SOURCES).parent
    tree = answer_of(tmp_path / "it.patch", "--from", wheel, "--onto", wheel, "--dry-run", code=1)
    assert [file["file"] for each in tree["changes"] for file in each["files"]] == ["srt/desk.py"]
    assert len(tree["changes"][0]["left"]) == 2


def test_without_a_base_the_blob_ids_of_a_series_tell_what_was_before(
    theirs: Path, fork: Path, tmp_path: Path
) -> None:
    given = folder_of(theirs, commits(theirs, (NOTED, TESTED), (AGAIN,), (LONGER,)), tmp_path / "given")
    run("port", given, "--repo", fork, "--onto", fork, "--commit")
    assert "reader.due = due or 1" in (fork / DESK).read_text()
    assert "take(1)" in (fork / TEST).read_text()
    assert len(subjects(fork)) == 4


def test_outside_of_a_repository_the_blobs_are_those_of_the_tree(
    theirs: Path, fork: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = folder_of(theirs, commits(theirs, (NOTED,), (AGAIN,)), tmp_path / "given")
    monkeypatch.chdir(tmp_path)
    run("port", given, "--onto", fork)
    assert "reader.due = due or 1" in (fork / DESK).read_text()


def test_a_diff_without_a_base_of_which_nothing_is_known_asks_for_it(
    theirs: Path, fork: Path, tmp_path: Path
) -> None:
    commits(theirs, (LONGER,))
    named = commits(theirs, (NOTED,))
    (tmp_path / "it.patch").write_text(git(theirs, "diff", named))
    before = everything(fork)
    output = run("port", tmp_path / "it.patch", "--repo", fork, "--onto", fork, code=2).output
    assert (
        "neither the diff nor the repository tells what it was before help: name the diff's tree with --from"
        in (" ".join(output.split()))
    )
    assert everything(fork) == before


def test_a_release_that_no_tag_names_is_downloaded_once_and_offline_is_an_error_in_a_sentence(
    theirs: Path, fork: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    asked: list[str] = []

    def download(words: list[str], **_options: object) -> subprocess.CompletedProcess[bytes]:
        asked.append(words[-1])
        if words[-1] != "sglang==0.5.13":
            return subprocess.CompletedProcess(words, 1, b"", b"ERROR: No matching distribution found\n")
        place = words[words.index("--dest") + 1]
        with zipfile.ZipFile(f"{place}/sglang-0.5.13-py3-none-any.whl", "w") as archive:
            for name, text in SOURCES.items():
                archive.writestr(f"sglang/{name}", text)
            archive.writestr("../outside.py", "")
        return subprocess.CompletedProcess(words, 0, b"", b"")

    monkeypatch.setattr(subprocess, "run", download_or(subprocess.run, download))
    (tmp_path / "it.patch").write_text(git(theirs, "diff", commits(theirs, (NOTED,))))
    words = ("port", tmp_path / "it.patch", "--repo", theirs, "--onto", fork, "--dry-run", "--from")
    output = run(*words, "0.5.99", code=4).output
    assert "no tag names release 0.5.99, and it could not be downloaded (ERROR: No matching" in " ".join(
        output.split()
    )
    run(
        "port", tmp_path / "its.patch", *words[2:], "0.5.98", code=2
    )  # A misspelt name is refused before that.
    for _ in range(2):
        run(*words, "0.5.13")
    assert asked == ["sglang==0.5.99", "sglang==0.5.13"]
    assert not list(tmp_path.rglob("outside.py"))


def download_or(real: Callable[..., Any], download: Callable[..., Any]) -> Callable[..., Any]:
    def run_either(words: list[str], **options: object) -> object:
        return (download if words[0] == sys.executable else real)(words, **options)

    return run_either


def test_a_change_that_conflicts_is_skipped_whole_with_those_that_need_it_and_the_others_land(
    theirs: Path, fork: Path, tmp_path: Path
) -> None:
    helper = (SHELF, "def stamp(book):\n", "def mark(book):\n    return book\n\n\ndef stamp(book):\n")
    marked = (DESK, "        return place(book)\n", "        mark(book)\n        return place(book)\n")
    imported = (DESK, "import place\n", "import mark, place\n")
    days = (SHELF, "    return row\n", "    return row + 1\n")
    named = commits(theirs, (LONGER, helper), (NOTED,), (imported, marked), (days,))
    edit(fork, (DESK, "    days = 14\n", "    days = 15\n"))
    git(fork, "commit", "-qam", "Fifteen")
    words = (named, "--repo", theirs, "--onto", fork)
    before = everything(fork)
    refused = answer_of(*words, "--commit", code=3)
    assert everything(fork) == before
    tree = answer_of(*words, "--commit", "--keep-going", "-o", tmp_path / "new", code=1)
    first, _, third, _ = tree["changes"]
    assert [each["skipped"] for each in refused["changes"]] == [True, False, True, False]
    assert [each["skipped"] for each in tree["changes"]] == [True, False, True, False]
    assert (first["needs"], third["needs"]) == ([], [first["id"]])
    assert [bool(each["made"]) for each in tree["changes"]] == [False, True, False, True]
    assert "def mark" not in (fork / SHELF).read_text()
    assert len(read(tmp_path / "new")) == 2
    output = run("port", *words, "--keep-going", "--dry-run", code=1).output
    assert f"{third['id']}  Ändere 3: skipped; it needs {first['id']}" in output


def test_a_conflict_that_a_person_resolved_is_there_when_the_series_is_ported_again(
    theirs: Path, fork: Path, tmp_path: Path
) -> None:
    named = commits(theirs, (NOTED, TESTED), (LONGER,), (PLACED,))
    edit(fork, (DESK, "    days = 14\n", "    days = 15\n"))
    git(fork, "commit", "-qam", "Fifteen")
    git(fork, "branch", "plain")
    words = ("port", named, "--repo", theirs, "--onto", fork)
    run(*words, "--markers", code=1)
    assert "<<<<<<<" in (fork / DESK).read_text()
    (block,) = conflicts_in(open_tree(fork))["srt/desk.py"]
    text = (fork / DESK).read_text()
    start, end = text.index("<<<<<<<"), text.index(">>>>>>>")
    (fork / DESK).write_text(text[:start] + "    days = 22\n" + text[text.index("\n", end) + 1 :])
    run("resolve", fork, block.patch, block.edit)
    git(fork, "add", "-A")
    git(fork, "commit", "-qm", "By hand")
    again = answer_of(*words[1:], "--commit", "-o", tmp_path / "new")
    outcomes = [
        [edit["outcome"] for file in each["files"] for edit in file["edits"]] for each in again["changes"]
    ]
    assert outcomes == [["already"], ["already"], ["landed"]]
    assert "days = 22" in (fork / DESK).read_text()
    # What the first run made is in the series that the second writes.
    git(fork, "switch", "-q", "plain")
    git(fork, "am", "-q", *map(str, sorted((tmp_path / "new").iterdir())))
    assert git(fork, "diff", "--stat", "main", "--", ".", ":!patchkit.lock") == ""
    assert len(read(tmp_path / "new")) == 3


def test_a_test_that_drifted_is_left_out_and_the_change_lands(theirs: Path, fork: Path) -> None:
    edit(fork, (TEST, "lend(1)\n", "lend(2)\n"))
    git(fork, "commit", "-qam", "Another test")
    named = commits(theirs, (NOTED, TESTED))
    before = (fork / TEST).read_bytes()
    tree = answer_of(named, "--repo", theirs, "--onto", fork, "--commit", code=1)
    assert [(each["file"], each["outcome"]) for each in tree["changes"][0]["outside"]] == [(TEST, "conflict")]
    assert (fork / TEST).read_bytes() == before
    assert "reader.due = due" in (fork / DESK).read_text()


def test_a_commit_that_leaves_out_a_part_says_so_and_names_each_file(theirs: Path, fork: Path) -> None:
    edit(fork, (TEST, "lend(1)\n", "lend(2)\n"))
    edit(fork, (DESK, "    days = 14\n", "    days = 20\n"))
    git(fork, "commit", "-qam", "Other days")
    (theirs / "python" / "sglang" / "srt" / "link.py").symlink_to("/etc/passwd")
    named = commits(theirs, (NOTED, TESTED, (DESK, "    days = 14\n", "    days = 21\n")))
    words = (named, "--repo", theirs, "--onto", fork, "--keep-going", "--commit")
    run("port", *words, code=1)
    assert "reader.due = due" in (fork / DESK).read_text()
    message = git(fork, "log", "-1", "--format=%B")
    assert "\n\nOnly a part of the change: 3 files left out or not whole.\n\n" in message
    format_of = "--format=%(trailers:key=Patchkit-Left-Out,valueonly)"
    left_out = git(fork, "log", "-1", format_of).split()
    assert left_out == ["srt/desk.py", "srt/link.py", TEST]
    run("revert", fork, git(fork, "log", "-1", "--format=%(trailers:key=Patchkit-Port,valueonly)").split()[0])


@pytest.mark.parametrize("onto", ["a checkout", "a ref"])
@pytest.mark.parametrize("form", ["a mail", "a diff"])
def test_a_patch_that_is_written_says_what_it_leaves_out(
    theirs: Path, fork: Path, tmp_path: Path, onto: str, form: str
) -> None:
    edit(fork, (TEST, "lend(1)\n", "lend(2)\n"))
    git(fork, "commit", "-qam", "Another test")
    given = folder_of(theirs, commits(theirs, (NOTED, TESTED)), tmp_path / "given")
    if form == "a diff":
        (mail,) = given.iterdir()
        mail.write_text(f"Why.\n\n{git(theirs, 'diff', 'HEAD^')}")
    git(theirs, "fetch", "-q", str(fork), "main:their-fork")
    words = (given, "--from", "HEAD^", "--repo", theirs, "-o", tmp_path / "new")
    run("port", *words, "--onto", fork if onto == "a checkout" else "their-fork", code=1)
    git(fork, "stash", "-q", "-u")
    (written,) = (tmp_path / "new").iterdir()
    left = f"Only a part of the change: 1 file left out or not whole.\n\nPatchkit-Left-Out: {TEST}\n"
    if form == "a diff":
        git(fork, "apply", str(written))
        assert written.read_text().startswith(f"Why.\n\n{left}diff --git ")
        return
    git(fork, "am", "-q", str(written))
    assert git(fork, "log", "-1", "--format=%B").startswith(f"Ändere 1\n\nBecause.\n\n{left}")
    assert git(fork, "log", "-1", "--format=%(trailers:key=Patchkit-Left-Out,valueonly)").split() == [TEST]


@pytest.mark.parametrize("onto", ["a checkout", "a ref"])
def test_a_test_that_moved_is_followed(theirs: Path, fork: Path, tmp_path: Path, onto: str) -> None:
    (fork / "test" / "unit").mkdir()
    git(fork, "mv", TEST, "test/unit/run_desk.py")
    git(fork, "commit", "-qm", "Moved")
    named = commits(theirs, (NOTED, TESTED))
    git(theirs, "fetch", "-q", str(fork), "main:their-fork")
    place = fork if onto == "a checkout" else "their-fork"
    tree = answer_of(named, "--repo", theirs, "--onto", place, "-o", tmp_path / "new")
    assert [each["onto"] for each in tree["changes"][0]["outside"]] == ["test/unit/run_desk.py"]
    git(fork, "stash", "-q", "-u")
    git(fork, "am", "-q", *map(str, (tmp_path / "new").iterdir()))
    assert "take(1)" in (fork / "test" / "unit" / "run_desk.py").read_text()


def test_a_tree_that_is_only_the_package_leaves_out_the_files_beside_it(theirs: Path, tmp_path: Path) -> None:
    wheel = write_package(tmp_path / "site" / "sglang", SOURCES).parent
    (tmp_path / "test").mkdir()
    (tmp_path / TEST).write_text("from desk import lend, take\nlend(1)\nassert 1\n")
    named = commits(theirs, (NOTED, TESTED))
    tree = answer_of(named, "--repo", theirs, "--onto", wheel, code=1)
    assert [TEST in each for each in tree["changes"][0]["left"]] == [True]
    assert "take(1)" not in (tmp_path / TEST).read_text()


HOSTILE = {
    "above": "../../victim.py",
    "absolute": "/tmp/victim.py",
    "of git": ".git/hooks/post-checkout",
    "of git, spelled otherwise": "python/sglang/.GIT/config",
    "above from the package": "python/sglang/../../../victim.py",
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_path_that_leads_out_of_the_tree_is_refused(fork: Path, tmp_path: Path, name: str) -> None:
    diff = f"diff --git a/{name} b/{name}\nnew file mode 100755\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+evil\n"
    whole = f"--- a/{DESK}\n+++ b/{DESK}\n@@ -5,1 +5,1 @@\n-    days = 14\n+    days = 21\n"
    (tmp_path / "it.patch").write_text(whole + diff)
    before = everything(tmp_path)
    output = run(
        "port", tmp_path / "it.patch", "--from", "v0.5.12", "--repo", fork, "--onto", fork, code=2
    ).output
    assert "leads out of the tree, or into git's folder" in " ".join(output.split())
    assert everything(tmp_path) == before


def test_what_is_cut_empty_or_of_another_base_is_refused_before_anything_is_written(
    theirs: Path, fork: Path, tmp_path: Path
) -> None:
    given = folder_of(theirs, commits(theirs, (NOTED,), (PLACED,)), tmp_path / "given")
    last = sorted(given.iterdir())[-1]
    text = last.read_text()
    words = ("port", given, "--from", "v0.5.12", "--repo", theirs, "--onto", fork)
    cuts = {
        "": "no unified diff",
        text[: text.index("@@ ")]: "changes there without a hunk",
        text[: text.index("+    return")]: "has fewer lines than its header",
        text.replace("-    return row", "-    return nothing"): "are not in the tree",
        "x" * 2**20: "no unified diff",
    }
    before = everything(fork)
    for cut, message in cuts.items():
        last.write_text(cut)
        output = " ".join(run(*words, code=2).output.split())
        assert message in output
        assert output.startswith("error: ")
    assert everything(fork) == before
    last.unlink()
    (given / "series").write_text("missing.patch\n")
    assert "missing.patch does not exist" in run(*words, code=2).output
    os.unlink(given / "series")
    for path in given.iterdir():
        path.unlink()
    assert "no patch is in the folder" in run(*words, code=2).output


def test_a_folder_is_not_overwritten(theirs: Path, fork: Path, tmp_path: Path) -> None:
    given = folder_of(theirs, commits(theirs, (NOTED,)), tmp_path / "given")
    before = everything(fork), read(given)
    run("port", given, "--from", "v0.5.12", "--repo", theirs, "--onto", fork, "-o", given, code=2)
    assert (everything(fork), read(given)) == before


def test_ported_commits_are_in_the_status_and_rebase_tells_which_fit_a_ref(theirs: Path, fork: Path) -> None:
    named = commits(theirs, (NOTED,), (LONGER,), (PLACED,))
    run("port", named, "--repo", theirs, "--onto", fork, "--commit")
    names = git(theirs, "log", "--reverse", "--format=%h", "--abbrev=12", named).split()
    assert sorted(json.loads(run("status", fork, "--json").stdout)["ports"]) == sorted(names)
    git(fork, "branch", "next", "v0.5.12")
    git(fork, "stash", "-q", "-u")
    git(fork, "switch", "-q", "next")
    edit(fork, (DESK, "    days = 14\n", "    days = 15\n"))
    edit(fork, PLACED)
    git(fork, "commit", "-qam", "The next release")
    git(fork, "switch", "-q", "main")
    output = run("rebase", fork, "--onto", "next", code=1).output
    summaries = [line.split("ported", 1)[1].strip() for line in output.splitlines() if "  ported  " in line]
    assert summaries == ["applies there", "conflicts there", "in place there: drop yours"]
    answer = json.loads(run("rebase", fork, "--onto", "next", "--json", code=1).stdout)
    assert [each["id"] for each in answer["ports"]] == names
    run("revert", fork, names[1], "--commit")
    assert names[1] not in json.loads(run("status", fork, "--json").stdout)["ports"]
    left = CliRunner().invoke(main, ["rebase", str(fork), "--onto", "next", "--json"])
    assert [each["id"] for each in json.loads(left.stdout)["ports"]] == [names[0], names[2]]
