"""A port that was committed is reverted by its name wherever git's history has it, exactly or not at all."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import pytest
from support.releases import run
from support.repositories import clone, committing, copied, hook, whole
from support.sweeps import crossed
from support.toys import (
    CRLF,
    MIRROR,
    SOURCES,
    add_patch,
    attribute,
    checked_in,
    edit,
    everything,
    git,
    patch_text,
    statement,
)

from patchkit.tree import git as reading_git

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("cached_git")
FRESH = "srt/managers/fresh.py"
LATER = (b"        return self.copies\n", b"        self.asked = True\n        return self.copies\n")
BESIDE = (b"        self.asked = True\n", b"        self.asked = True\n        self.told = True\n")
OVER = (b"        self.asked = True\n", b"        self.asked = None\n")
FAR = (b"depth = 1\n", b"depth = 1\nheight = 2\n")
OWN = (b"    copies = 0\n", b"    copies = 0\n    mine_1 = 1\n")


@pytest.fixture
def theirs(tmp_path: Path) -> CheckoutTree:
    return committing(checked_in(tmp_path / "theirs"))


@pytest.fixture
def fork(checkout: CheckoutTree) -> CheckoutTree:
    return committing(checkout)


@pytest.fixture(scope="module")
def first_port(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], CheckoutTree]:
    """Return a function that makes, once, a fork with a port of the pull request 77."""

    @cache
    def made() -> CheckoutTree:
        place = tmp_path_factory.mktemp("ported")
        theirs, fork = (committing(checked_in(place / name)) for name in ("theirs", "fork"))
        port(theirs, fork, 77, LATER)
        return fork

    return made


@pytest.fixture
def ported(first_port: Callable[[], CheckoutTree], tmp_path: Path) -> CheckoutTree:
    """A fork with a port of the pull request 77."""
    return copied(first_port(), tmp_path / "fork")


def port(theirs: CheckoutTree, fork: CheckoutTree, number: int, *changes: tuple[bytes, bytes]) -> str:
    """Let others change the mirror in a pull request, port that, and return its commit."""
    for change in changes:
        edit(theirs, MIRROR, *change)
    git(theirs.root, "add", ".")
    git(theirs.root, "commit", "-qm", f"Something of theirs (#{number})")
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root, "--commit")
    return git(fork.root, "rev-parse", "HEAD").strip()


def clone_of(fork: CheckoutTree, folder: Path, *options: str) -> CheckoutTree:
    return committing(clone(fork, folder, *options))


def commit_own(fork: CheckoutTree, *changes: tuple[bytes, bytes], how: str = "-qam") -> None:
    for change in changes:
        edit(fork, MIRROR, *change)
    git(fork.root, "commit", how, "Own")


def mirror(*changes: tuple[bytes, bytes]) -> bytes:
    text = SOURCES[MIRROR]
    for change in changes:
        text = text.replace(*change)
    return text


def refused(tree: CheckoutTree, *words: str, code: int = 3) -> str:
    before = everything(tree.root)
    output = " ".join(run("revert", tree.root, *words, code=code).output.split())
    assert everything(tree.root) == before
    return output


def not_committed(theirs: CheckoutTree, fork: CheckoutTree) -> str:
    """Return the error of a port that is refused and changes nothing."""
    before = whole(fork)
    words = ("HEAD", "--repo", theirs.root, "--onto", fork.root, "--commit")
    output = " ".join(run("port", *words, code=4).output.split())
    assert whole(fork) == before
    return output


def test_a_clone_reverts_a_port_by_its_name(theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path) -> None:
    before = everything(fork.root)
    (theirs.package / FRESH).write_bytes(b"fresh = 1\n")
    port(theirs, fork, 77, LATER)
    clone = clone_of(fork, tmp_path)
    assert (clone.package / FRESH).exists()
    assert run("revert", clone.root, "77").output.startswith("Reverted: 77.\n")
    assert everything(clone.root) == before


def test_a_port_is_reverted_in_a_commit_and_comes_back_with_git(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path
) -> None:
    (theirs.package / FRESH).write_bytes(b"fresh = 1\n")

    def committed(tree: CheckoutTree) -> str:
        assert git(tree.root, "status", "--porcelain") == ""
        return git(tree.root, "rev-parse", "HEAD^{tree}")

    before = committed(fork)
    port(theirs, fork, 77, LATER)
    ported = committed(fork)
    for tree in (clone_of(fork, tmp_path), fork):
        assert "77 was ported and committed, and stays." in run("revert", tree.root, "--commit").output
        assert "in 1 commit." in run("revert", tree.root, "77", "--commit").output
        assert committed(tree) == before
        subject = git(tree.root, "log", "-1", "--format=%s %(trailers:key=Patchkit-Revert,valueonly)")
        assert subject.strip() == "Revert 77 77"
        git(tree.root, "revert", "--no-edit", "HEAD")
        assert committed(tree) == ported
        assert "in 1 commit." in run("revert", tree.root, "77", "--commit").output
        assert committed(tree) == before


def test_edits_and_ports_of_later_commits_stay(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path
) -> None:
    port(theirs, fork, 77, LATER)
    commit_own(fork, OWN)
    port(theirs, fork, 78, FAR)
    clone = clone_of(fork, tmp_path)
    edit(clone, MIRROR, b"height = 2\n", b"height = 2\nmine_2 = 2\n")
    run("revert", clone.root, "77")
    assert clone.read(MIRROR) == mirror(OWN, FAR, (b"height = 2\n", b"height = 2\nmine_2 = 2\n"))
    run("revert", clone.root, "78")
    assert clone.read(MIRROR) == mirror(OWN, (b"depth = 1\n", b"depth = 1\nmine_2 = 2\n"))


def test_it_is_found_after_a_rebase_and_in_the_checkout_without_its_ledger(
    theirs: CheckoutTree, fork: CheckoutTree
) -> None:
    git(fork.root, "branch", "moved-on")
    port(theirs, fork, 77, LATER)
    ported = git(fork.root, "branch", "--show-current").strip()
    git(fork.root, "switch", "-q", "moved-on")
    commit_own(fork, OWN)
    git(fork.root, "switch", "-q", ported)
    git(fork.root, "rebase", "-q", "moved-on")
    run("revert", fork.root, "77")
    assert fork.read(MIRROR) == mirror(OWN)


def test_two_ports_of_one_pull_request_go_together(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path
) -> None:
    port(theirs, fork, 77, LATER)
    port(theirs, fork, 77, OVER)
    clone = clone_of(fork, tmp_path)
    run("revert", clone.root, "77")
    assert clone.read(MIRROR) == SOURCES[MIRROR]


def test_a_port_that_a_later_one_changed_names_both(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path
) -> None:
    port(theirs, fork, 77, LATER)
    port(theirs, fork, 78, OVER)
    clone = clone_of(fork, tmp_path)
    assert f"patchkit revert {clone.root} 77 78" in refused(clone, "77")
    run("revert", clone.root, "77", "78")
    assert clone.read(MIRROR) == SOURCES[MIRROR]


def test_a_commit_to_which_a_person_added_code_is_refused(ported: CheckoutTree, tmp_path: Path) -> None:
    edit(ported, MIRROR, *OWN)
    git(ported.root, "commit", "-qa", "--amend", "--no-edit")
    commit = git(ported.root, "rev-parse", "--short=12", "HEAD").strip()
    clone = clone_of(ported, tmp_path)
    assert f"git revert {commit}" in refused(clone, "77")


def test_ports_squashed_into_one_commit_are_refused(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path
) -> None:
    base = git(fork.root, "rev-parse", "HEAD").strip()
    port(theirs, fork, 77, LATER)
    port(theirs, fork, 78, FAR)
    output = git(fork.root, "log", "--format=%B", f"{base}..HEAD")
    git(fork.root, "reset", "-q", "--soft", base)
    git(fork.root, "commit", "-qm", output)
    clone = clone_of(fork, tmp_path)
    assert "other changes too" in refused(clone, "77")
    assert "other changes too" in refused(clone, "77", "78")


def test_code_inside_a_port_that_a_person_edited_is_refused(ported: CheckoutTree, tmp_path: Path) -> None:
    commit_own(ported, OVER)
    clone = clone_of(ported, tmp_path)
    assert "edited after" in refused(clone, "77")


def test_a_port_that_git_reverted_is_nothing_to_revert(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path
) -> None:
    git(fork.root, "revert", "--no-edit", port(theirs, fork, 77, LATER))
    clone = clone_of(fork, tmp_path)
    before = everything(clone.root)
    assert "Nothing to revert" in run("revert", clone.root, "77").output
    assert everything(clone.root) == before


def test_a_shallow_clone_names_what_to_fetch(ported: CheckoutTree, tmp_path: Path) -> None:
    clone = clone_of(ported, tmp_path, "--depth", "1")
    assert "git fetch --unshallow" in refused(clone, "77")


def test_a_name_that_no_port_has_is_refused(ported: CheckoutTree, tmp_path: Path) -> None:
    clone = clone_of(ported, tmp_path)
    assert "no patch is called '79'" in refused(clone, "79", code=2)


def test_a_clone_reverts_a_port_that_a_formatter_rewrote(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path
) -> None:
    hook(fork, "pre-commit", f"sed -i 's/asked = True/asked = (True)/' python/sglang/{MIRROR}")
    port(theirs, fork, 77, LATER)
    clone = clone_of(fork, tmp_path)
    assert b"asked = (True)" in (clone.read(MIRROR) or b"")
    author = git(clone.root, "log", "-1", "--format=%an %ad %B")
    assert author.startswith(git(theirs.root, "log", "-1", "--format=%an %ad %B").rstrip())
    run("revert", clone.root, "77")
    assert clone.read(MIRROR) == SOURCES[MIRROR]


@pytest.mark.parametrize("where", ["own", "clone"])
def test_a_file_that_a_hook_adds_to_the_package_goes_with_the_port(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path, where: str
) -> None:
    before = git(fork.root, "rev-parse", "HEAD^{tree}")
    added = "python/sglang/srt/listed.py"
    hook(fork, "pre-commit", f"grep -c asked python/sglang/{MIRROR} > {added}; git add {added}")
    port(theirs, fork, 77, LATER)
    assert git(fork.root, "show", "--name-only", "--format=").split() == [
        "patchkit.lock/77.toml",
        added,
        f"python/sglang/{MIRROR}",
    ]
    (fork.root / ".git" / "hooks" / "pre-commit").unlink()
    tree = fork if where == "own" else clone_of(fork, tmp_path)
    run("revert", tree.root, "77", "--commit")
    assert git(tree.root, "rev-parse", "HEAD^{tree}") == before
    assert git(tree.root, "status", "--porcelain") == ""


def test_a_message_longer_than_linux_allows_an_argument_to_be_is_kept(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path
) -> None:
    hook(fork, "pre-commit", f"sed -i 's/asked = True/asked = (True)/' python/sglang/{MIRROR}")
    edit(theirs, MIRROR, *LATER)
    (tmp_path / "message").write_text("Something of theirs (#77)\n\n" + "Läuft\n" * 60_000)
    git(theirs.root, "commit", "-qaF", str(tmp_path / "message"))
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root, "--commit")
    written = git(fork.root, "log", "-1", "--format=%B")
    assert written.startswith((tmp_path / "message").read_text())
    clone = clone_of(fork, tmp_path)
    run("revert", clone.root, "77")
    assert clone.read(MIRROR) == SOURCES[MIRROR]


def test_a_clone_reverts_a_port_of_a_port(theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path) -> None:
    port(theirs, fork, 77, LATER, FAR)
    second = committing(checked_in(tmp_path / "second"))
    commit_own(second, FAR)
    run("port", "HEAD", "--repo", fork.root, "--onto", second.root, "--commit")
    message = git(second.root, "log", "-1", "--format=%B")
    assert message.count("Patchkit-Port: 77 ") == 1
    clone = clone_of(second, tmp_path)
    run("revert", clone.root, "77")
    assert clone.read(MIRROR) == mirror(FAR)


def test_of_two_trailers_with_its_name_the_last_is_the_commits_own(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path
) -> None:
    port(theirs, fork, 77, LATER)
    message = git(fork.root, "log", "-1", "--format=%B")
    inherited = f"Something of theirs (#77)\n\nPatchkit-Port: 77 {'0' * 32}"
    git(fork.root, "commit", "-q", "--amend", "-m", message.replace("Something of theirs (#77)", inherited))
    clone = clone_of(fork, tmp_path)
    run("revert", clone.root, "77")
    assert clone.read(MIRROR) == SOURCES[MIRROR]


@pytest.mark.parametrize(
    ("where", "key", "encoding"),
    crossed(
        ("theirs", "fork"),
        ("i18n.logOutputEncoding", "i18n.commitEncoding"),
        ("GBK", "latin1"),
        one_in=2,
    ),
)
def test_author_and_message_are_kept_whatever_encoding_git_is_configured_to(
    theirs: CheckoutTree, fork: CheckoutTree, encoding: str, key: str, where: str
) -> None:
    edit(theirs, MIRROR, *LATER)
    who = "张三" if encoding == "GBK" else "Jörg"
    git(theirs.root, "commit", "-qam", f"Von {who} (#77)", f"--author={who} <some@example.org>")
    git((theirs if where == "theirs" else fork).root, "config", key, encoding)
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root, "--commit")
    for tree in (theirs, fork):
        git(tree.root, "config", key, "UTF-8")
    log = git(fork.root, "log", "-1", "--encoding=UTF-8", "--format=%an: %s")
    assert log == f"{who}: Von {who} (#77)\n"


def test_a_date_of_long_ago_is_kept(theirs: CheckoutTree, fork: CheckoutTree) -> None:
    edit(theirs, MIRROR, *LATER)
    git(theirs.root, "commit", "-qam", "Old (#77)", "--date=@86400 +0200")
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root, "--commit")
    assert git(fork.root, "log", "-1", "--date=raw", "--format=%ad") == "86400 +0200\n"


@pytest.mark.parametrize("first", ["port", "patch"])
def test_beside_a_committed_patch_one_that_a_person_committed_goes_where_the_ledger_is(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path, first: str
) -> None:
    toys = tmp_path / "toys"
    add_patch(toys, "t-limit", attribute(MIRROR, "Mirror", "limit = 8"))
    for name in sorted(("port", "patch"), key=lambda each: each != first):
        if name == "patch":
            run("apply", fork.root, "t-limit", "--commit", "--patches", toys)
            continue
        port(theirs, fork, 77, LATER)
        git(fork.root, "commit", "-q", "--amend", "-m", "Something of theirs")
    assert run("revert", fork.root, "77", "--patches", toys).output.startswith("Reverted: 77.\n")
    assert b"asked" not in (fork.read(MIRROR) or b"")
    assert b"patchkit t-limit" in (fork.read(MIRROR) or b"")


@pytest.mark.parametrize("place", ["here", "clone"])
@pytest.mark.parametrize("first", ["port", "patch"])
def test_beside_a_committed_patch_each_goes_by_its_name(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path, place: str, first: str
) -> None:
    toys = tmp_path / "toys"
    add_patch(toys, "t-limit", attribute(MIRROR, "Mirror", "limit = 8"))
    steps: dict[str, Callable[[], object]] = {
        "port": lambda: port(theirs, fork, 77, LATER),
        "patch": lambda: run("apply", fork.root, "t-limit", "--commit", "--patches", toys),
    }
    for name in sorted(steps, key=lambda each: each != first):
        steps[name]()
    tree = fork if place == "here" else clone_of(fork, tmp_path)
    both = tree.read(MIRROR)
    run("revert", tree.root, "77", "--patches", toys)
    assert b"asked" not in (tree.read(MIRROR) or b"")
    assert b"patchkit t-limit" in (tree.read(MIRROR) or b"")
    git(tree.root, "checkout", "-q", ".")
    assert tree.read(MIRROR) == both
    run("revert", tree.root, "t-limit", "--patches", toys)
    assert tree.read(MIRROR) == mirror(LATER)
    run("revert", tree.root, "77", "--patches", toys)
    assert tree.read(MIRROR) == SOURCES[MIRROR]


def test_a_record_keeps_its_uncommitted_patches(ported: CheckoutTree, tmp_path: Path) -> None:
    toys = tmp_path / "toys"
    code = statement("rewrite", "depth", MIRROR, "depth = 1", "depth = 2")
    (toys / "t-depth").mkdir(parents=True)
    (toys / "t-depth" / "patch.toml").write_text(patch_text("t-depth", code))
    clone = clone_of(ported, tmp_path)
    run("apply", clone.root, "t-depth", "--patches", toys)
    both = copied(clone, tmp_path / "both")
    run("revert", both.root, "77", "t-depth", "--patches", toys)
    assert both.read(MIRROR) == SOURCES[MIRROR]
    run("revert", clone.root, "77", "--patches", toys)
    assert b"depth = 2" in (clone.read(MIRROR) or b"")
    run("revert", clone.root, "t-depth", "--patches", toys)
    assert clone.read(MIRROR) == SOURCES[MIRROR]


@pytest.mark.parametrize(
    ("committed", "file", "place"), crossed((True, False), (MIRROR, CRLF), ("here", "clone"), one_in=2)
)
def test_without_a_name_a_committed_port_stays_and_the_output_shows_how_to_revert_it(
    ported: CheckoutTree, tmp_path: Path, place: str, *, file: str, committed: bool
) -> None:
    toys = tmp_path / "toys"
    owner = "Mirror" if file == MIRROR else "Backend"
    add_patch(toys, "t-limit", attribute(file, owner, "limit = 8"))
    tree = ported if place == "here" else clone_of(ported, tmp_path)
    run("apply", tree.root, "t-limit", *["--commit"] * committed, "--patches", toys)
    if committed and place == "clone":
        (tmp_path / "again").mkdir()
        tree = clone_of(tree, tmp_path / "again")
    output = " ".join(run("revert", tree.root, "--patches", toys).output.split())
    assert output.startswith("Reverted: t-limit. Changed 1 file. 77 was ported and committed, and stays.")
    assert f"patchkit revert {tree.root} --patches {toys} 77 reverts what was ported" in output
    assert (tree.read(MIRROR), tree.read(CRLF)) == (mirror(LATER), SOURCES[CRLF])
    output = run("revert", tree.root).output
    assert output.startswith("Nothing to revert.\n77 was ported")
    assert json.loads(run("revert", tree.root, "--json").stdout)["ports"] == ["77"]
    assert run("revert", tree.root, "--keep-going").output.startswith("Nothing to revert.\n77 was ported")
    assert tree.read(MIRROR) == mirror(LATER)
    run("revert", tree.root, "77")
    assert tree.read(MIRROR) == SOURCES[MIRROR]


@pytest.mark.parametrize("place", ["here", "clone"])
def test_with_keep_going_and_without_a_name_a_committed_port_stays(
    ported: CheckoutTree, tmp_path: Path, place: str
) -> None:
    toys = tmp_path / "toys"
    add_patch(toys, "t-limit", attribute(CRLF, "Backend", "limit = 8"))
    run("apply", ported.root, "t-limit", "--commit", "--patches", toys)
    tree = ported if place == "here" else clone_of(ported, tmp_path)
    edit(tree, CRLF, b"limit = 8", b"limit = 9")
    words = ("revert", tree.root, "--keep-going", "--patches", toys)
    output = run(*words, code=1).output
    assert output.startswith(f"! t-limit: {CRLF}:4: code that patchkit wrote was edited after apply")
    assert "77 was ported and committed, and stays." in output
    answer = json.loads(run(*words, "--json", code=1).stdout)
    assert (answer["reverted"], answer["ports"]) == ([], ["77"])
    assert tree.read(MIRROR) == mirror(LATER)


@pytest.mark.parametrize("place", ["here", "clone"])
def test_a_committed_port_alone_stays(ported: CheckoutTree, tmp_path: Path, place: str) -> None:
    tree = ported if place == "here" else clone_of(ported, tmp_path)
    assert run("revert", tree.root).output.startswith("Nothing to revert.\n77 was ported")
    assert tree.read(MIRROR) == mirror(LATER)


def test_a_port_that_was_reverted_is_not_named(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path
) -> None:
    for number, change in ((77, LATER), (78, FAR), (79, OWN)):
        port(theirs, fork, number, change)
    clone = clone_of(fork, tmp_path)
    run("revert", clone.root, "78")
    git(clone.root, "commit", "-qam", "Without that")
    output = run("revert", clone.root).output
    assert "77, 79 were ported and committed, and stay." in output
    run("revert", clone.root, "77", "79")
    assert run("revert", clone.root).output == "Nothing to revert.\n"


def ported_with_a_new_file(theirs: CheckoutTree, fork: CheckoutTree) -> tuple[object, ...]:
    """Port a commit with an edit and a new file, without committing it; return the words of the command."""
    (theirs.package / FRESH).write_bytes(b"fresh = 1\n")
    edit(theirs, MIRROR, *LATER)
    git(theirs.root, "add", ".")
    git(theirs.root, "commit", "-qm", "Something of theirs (#77)")
    words = ("HEAD", "--repo", theirs.root, "--onto", fork.root)
    run("port", *words)
    return words


def test_half_of_a_change_that_is_not_committed_is_not_left_out_of_its_commit(
    theirs: CheckoutTree, fork: CheckoutTree
) -> None:
    words = ported_with_a_new_file(theirs, fork)
    git(fork.root, "stash", "-q")
    output = not_committed(theirs, fork)
    assert f"--> {FRESH} help: run patchkit revert {fork.root} 77," in output
    run("revert", fork.root, "77")
    run("port", *words, "--commit")
    assert len(git(fork.root, "show", "--format=", "--name-only").split()) == 3  # The record among them.


@pytest.mark.parametrize("half", ["staged", "deleted", "changed", "changed and staged", "excluded"])
def test_what_is_uncommitted_of_a_change_is_named(
    theirs: CheckoutTree, fork: CheckoutTree, half: str
) -> None:
    gone = "srt/managers/gone.py"
    for tree in (theirs, fork):
        (tree.package / gone).write_bytes(b"gone = 1\n")
        git(tree.root, "add", ".")
        git(tree.root, "commit", "-qm", "Both")
    (theirs.package / gone).unlink()
    (theirs.package / FRESH).write_bytes(b"fresh = 1\n")
    edit(theirs, CRLF, b"    stride = 1\r\n", b"    stride = 2\r\n")
    file = {"staged": FRESH, "excluded": FRESH, "deleted": gone}.get(half, CRLF)
    if file == FRESH:
        (fork.package / FRESH).write_bytes(b"fresh = 1\n")
    elif file == gone:
        (fork.package / gone).unlink()
    else:
        edit(fork, CRLF, b"    stride = 1\r\n", b"    stride = 2\r\n")
    if half == "excluded":
        (fork.root / ".git" / "info").mkdir(exist_ok=True)
        (fork.root / ".git" / "info" / "exclude").write_text("fresh.py\n")
    if "staged" in half:
        git(fork.root, "add", ".")
    edit(theirs, MIRROR, *LATER)
    git(theirs.root, "add", ".")
    git(theirs.root, "commit", "-qm", "Something of theirs (#77)")
    assert f"--> {file} help: commit, stash (git stash -u) or move them" in not_committed(theirs, fork)


def test_a_change_that_is_there_and_not_committed_is_not_nothing(
    theirs: CheckoutTree, fork: CheckoutTree
) -> None:
    words = ported_with_a_new_file(theirs, fork)
    output = not_committed(theirs, fork)
    assert f"patchkit revert {fork.root} 77" in output
    run("revert", fork.root, "77")
    run("port", *words, "--commit")
    assert "Nothing changed." in run("port", *words, "--commit").output


def test_a_change_that_a_later_one_of_the_range_takes_up_is_committed(
    theirs: CheckoutTree, fork: CheckoutTree
) -> None:
    base = git(theirs.root, "rev-parse", "HEAD").strip()
    for text in (b"fresh = 1\n", b"fresh = 2\n"):
        (theirs.package / FRESH).write_bytes(text)
        git(theirs.root, "add", ".")
        git(theirs.root, "commit", "-qm", "Something of theirs")
    run("port", f"{base}..HEAD", "--repo", theirs.root, "--onto", fork.root, "--commit")
    assert git(fork.root, "rev-list", "--count", "HEAD").strip() == "3"


def test_a_package_that_git_does_not_track_is_not_committed(theirs: CheckoutTree, fork: CheckoutTree) -> None:
    edit(theirs, MIRROR, *LATER)
    git(theirs.root, "commit", "-qam", "Something of theirs (#77)")
    edit(fork, MIRROR, *LATER)
    git(fork.root, "rm", "-rq", "--cached", ".")
    git(fork.root, "commit", "-qm", "Nothing is tracked")
    assert "git does not track" in not_committed(theirs, fork)


FOREIGN = [
    f"Patchkit-Port: 78 {'0' * 32}\r",
    f"Patchkit-Port: 78 {'0' * 32}  ",
    f"Patchkit-Port: 78 {'0' * 32}\t",
    f"Patchkit-Port: --patches=./evil {'0' * 32}",
    "Patchkit-Port: 78 of another fork",
]


@pytest.mark.parametrize("given", ["commit", "mail", "subject", "only"])
def test_a_trailer_of_another_port_in_the_message_is_left_out(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path, given: str
) -> None:
    port(theirs, fork, 78, FAR)
    edit(theirs, MIRROR, *LATER)
    text = "\n".join(["Something else", "", "Why.", "", *FOREIGN, "Helped-by: Nobody"])
    text = {"subject": FOREIGN[1], "only": "\n".join(FOREIGN)}.get(given, text)
    (tmp_path / "message").write_text(text, newline="")
    git(theirs.root, "commit", "-qa", "--cleanup=verbatim", "-F", str(tmp_path / "message"))
    source: tuple[object, ...] = ("HEAD", "--repo", theirs.root)
    name = git(theirs.root, "rev-parse", "HEAD")[:12]
    if given in ("mail", "subject"):
        name = "mailed"
        source = (tmp_path / "mailed.patch", "--from", theirs.root)
        mail = git(theirs.root, "format-patch", "-1", "--stdout")
        git(theirs.root, "checkout", "-q", "HEAD^")
        (tmp_path / "mailed.patch").write_text(mail, newline="")
    run("port", *source, "--onto", fork.root, "--commit")
    message = git(fork.root, "log", "-1", "--format=%B")
    assert message.count("Patchkit-Port:") == 1
    assert f"\nPatchkit-Port: {name} " in message
    assert ("Helped-by: Nobody" in message) == (given in ("commit", "mail"))
    clone = clone_of(fork, tmp_path)
    run("revert", clone.root, "78")
    run("revert", clone.root, name)
    assert clone.read(MIRROR) == SOURCES[MIRROR]


def test_of_trailers_with_other_names_the_one_that_fits_is_the_commits_own(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path
) -> None:
    port(theirs, fork, 78, FAR)
    port(theirs, fork, 77, LATER)
    message = git(fork.root, "log", "-1", "--format=%B")
    for place in (message.replace("\n\n", f"\n\n{FOREIGN[1].rstrip()}\n", 1), message + FOREIGN[1].rstrip()):
        git(fork.root, "commit", "-q", "--amend", "-m", place)
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        clone = clone_of(fork, folder)
        run("revert", clone.root, "78")
        assert clone.read(MIRROR) == mirror(LATER)
        run("revert", clone.root, "77")
        assert clone.read(MIRROR) == SOURCES[MIRROR]


def test_a_trailer_whose_name_no_port_can_have_names_none(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path
) -> None:
    edit(fork, MIRROR, *LATER)
    git(fork.root, "commit", "-qam", f"Something\n\n{FOREIGN[3]}")
    clone = clone_of(fork, tmp_path)
    assert "evil" not in run("revert", clone.root).output


def test_a_written_patch_does_not_take_over_the_trailer_of_a_port(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path
) -> None:
    edit(theirs, MIRROR, *LATER)
    git(theirs.root, "commit", "-qam", f"Something\n\nWhy.\n\n{FOREIGN[1].rstrip()}")
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root, "-o", tmp_path / "written")
    text = (tmp_path / "written" / "0001-Something.patch").read_text()
    assert "Why." in text
    assert "Patchkit-Port" not in text


def test_ports_that_were_edited_or_reverted_since_are_named_if_their_code_is_left(
    theirs: CheckoutTree, fork: CheckoutTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port(theirs, fork, 77, LATER)
    reverted = port(theirs, fork, 78, (b"class Mirror:\n", b"class Mirror:\n    size = 2\n\n"))
    port(theirs, fork, 79, FAR)
    port(theirs, fork, 80, OVER)
    git(fork.root, "revert", "--no-edit", reverted)
    commit_own(fork, OWN, (b"height = 2\n", b"height = 3\n"))
    clone = clone_of(fork, tmp_path)
    listed: list[str] = []

    def counting(folder: Path, *words: str, **options: object) -> object:
        listed.extend(words[-2:-1] if words[0] == "diff-tree" else ())
        return real(folder, *words, **options)

    real: Callable[..., object] = reading_git.git
    monkeypatch.setattr("patchkit.transaction.ports.git", counting)
    output = run("revert", clone.root).output
    assert output.startswith("Nothing to revert.\n77, 79, 80 were ported and committed, and stay.\n")
    assert len(listed) == len(set(listed)) == 4
