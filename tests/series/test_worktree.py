"""Whatever a checkout is like and whatever comes in between, it moves whole or stays as it was."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.faults import Faults
from support.repositories import committing, hook, patched_states, whole
from support.toys import ABRUPT, CRLF, MIRROR, SOURCES, add_patch, contents, git, new_file_edit, write_package

from patchkit import api
from patchkit.cli import main
from patchkit.errors import TreeError
from patchkit.patchset import load
from patchkit.series import worktree
from patchkit.transaction.revert import recorded
from patchkit.transaction.store import Store
from patchkit.transaction.write import locked
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")
ALLOWED = ("-c", "protocol.file.allow=always")


@pytest.fixture
def fork(checkout: CheckoutTree) -> CheckoutTree:
    return committing(checkout)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where worktrees are made, which has to be empty again at the end."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def commit(tree: CheckoutTree, *ids: str) -> None:
    api.commit(tree, load.patches(), ids)


def refused(tree: CheckoutTree, match: str, *ids: str) -> None:
    before = whole(tree)
    with pytest.raises(TreeError, match=match) as caught:
        commit(tree, *ids)
    assert "\n" not in str(caught.value)
    assert whole(tree) == before


def is_whole(tree: CheckoutTree) -> None:
    """Assert that all patches are committed, nothing else is, and revert leads back."""
    assert git(tree.root, "diff", "--name-only", "HEAD") == ""
    assert set(patched_states(tree).values()) == {"applied"}
    assert set(recorded(tree)) == {"t-flag", "t-guard", "t-stop"}
    api.revert(tree, load.patches())
    assert {file: tree.read(file) for file in (MIRROR, CRLF, ABRUPT)} == {
        file: SOURCES[file] for file in (MIRROR, CRLF, ABRUPT)
    }


# ---- what a person has there ---------------------------------------------------------------------------------------


def test_what_a_person_has_in_hand_stays_in_hand(fork: CheckoutTree, temporary: Path) -> None:
    for name in ("edited", "staged", "hidden", "skipped", "gone"):
        (fork.root / name).write_text("one\n")
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "Files of other matters")
    for name in ("edited", "staged", "hidden", "untracked", "meant"):
        (fork.root / name).write_text("mine\n")
    (fork.root / "gone").unlink()
    git(fork.root, "add", "staged")
    git(fork.root, "add", "--intent-to-add", "meant")
    git(fork.root, "update-index", "--assume-unchanged", "hidden")
    git(fork.root, "update-index", "--skip-worktree", "skipped")
    (fork.root / "skipped").write_text("mine\n")

    def others() -> tuple[list[str], str, dict[str, str]]:
        listed = git(fork.root, "ls-files", "--stage", "-v").splitlines()
        names = ("edited", "staged", "hidden", "skipped", "untracked", "meant")
        texts = {name: (fork.root / name).read_text() for name in names}
        return (
            [x for x in listed if "sglang" not in x and "patchkit.lock" not in x],
            git(fork.root, "status", "--porcelain"),
            texts,
        )

    before = others()
    commit(fork)
    assert others() == before
    assert list(temporary.iterdir()) == []
    assert set(patched_states(fork).values()) == {"applied"}


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_an_edit_that_a_flag_of_the_index_hides_is_found(fork: CheckoutTree, flag: str) -> None:
    git(fork.root, "update-index", flag, f"python/sglang/{MIRROR}")
    (fork.package / MIRROR).write_bytes(SOURCES[MIRROR] + b"mine = 1\n")
    refused(fork, f"{MIRROR}: uncommitted changes")


def test_a_file_that_is_to_be_made_and_that_a_person_took_out_is_refused(
    fork: CheckoutTree, patch_folder: Path
) -> None:
    add_patch(patch_folder, "t-make", new_file_edit("srt/fresh/new.py", "made = 1"))
    path = write_package(fork.package, {"srt/fresh/new.py": b"old = 1\n"}) / "srt" / "fresh" / "new.py"
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "A file of that name")
    path.unlink()
    refused(fork, "new.py: uncommitted changes", "t-make")


def test_an_index_that_another_git_has_locked_is_refused(fork: CheckoutTree) -> None:
    (fork.root / ".git" / "index.lock").touch()
    refused(fork, "another git process is running")


def test_an_untracked_file_in_the_way_is_kept(fork: CheckoutTree) -> None:
    hook(fork, "pre-commit", "echo made > made.txt; git add --force made.txt")
    (fork.root / ".gitignore").write_text("made.txt\n")
    git(fork.root, "add", ".gitignore")
    git(fork.root, "commit", "-qnm", "Ignore")
    (fork.root / "made.txt").write_text("mine\n")
    refused(fork, r"made\.txt.*nothing was changed")


# ---- what comes in between -----------------------------------------------------------------------------------------


def test_an_edit_of_a_target_while_hooks_run_is_kept(fork: CheckoutTree) -> None:
    hook(fork, "pre-commit", f"echo '# mine' >> {fork.package}/{MIRROR}")
    with pytest.raises(TreeError, match=rf"{MIRROR}.*nothing was changed"):
        commit(fork, "t-flag")
    assert git(fork.root, "log", "--format=%s") == "As upstream has it\n"
    assert (fork.read(MIRROR) or b"").startswith(SOURCES[MIRROR] + b"# mine")
    assert fork.read(CRLF) == SOURCES[CRLF]
    assert recorded(fork) == ()


def just_before(monkeypatch: pytest.MonkeyPatch, command: str, act: Callable[[], object]) -> None:
    """Do something just before the first git that runs ``command``."""
    run, left = subprocess.run, [act]

    def meanwhile(words: Any, *rest: Any, **keys: Any) -> Any:
        if set(command.split()) <= set(words) and left:
            left.pop()()
        return run(words, *rest, **keys)

    monkeypatch.setattr(subprocess, "run", meanwhile)


@pytest.mark.parametrize("also", [MIRROR, "srt/fresh/new.py"])
def test_a_file_that_is_saved_just_before_the_branch_moves_is_an_uncommitted_edit(
    fork: CheckoutTree, patch_folder: Path, monkeypatch: pytest.MonkeyPatch, also: str
) -> None:
    add_patch(patch_folder, "t-make", new_file_edit("srt/fresh/new.py", "made = 1"))
    just_before(monkeypatch, "update-ref HEAD", lambda: write_package(fork.package, {also: b"mine = 1\n"}))
    commit(fork)
    assert fork.read(also) == b"mine = 1\n"
    assert git(fork.root, "status", "--porcelain") == f" M python/sglang/{also}\n"
    assert not Store(fork.package).pending


@pytest.mark.parametrize("command", ["worktree", "diff-tree"])
def test_a_commit_after_the_plan_or_just_before_the_move_is_noticed(
    fork: CheckoutTree, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    just_before(monkeypatch, command, lambda: git(fork.root, "commit", "-qm", "Mine", "--allow-empty"))
    with pytest.raises(TreeError, match=r"HEAD of .* moved while patchkit was running: nothing was changed"):
        commit(fork)
    assert git(fork.root, "log", "--format=%s") == "Mine\nAs upstream has it\n"
    commit(fork)
    is_whole(fork)


@pytest.mark.parametrize("command", ["read-tree", "diff-tree"])
def test_a_commit_of_a_patched_file_just_before_the_move_is_not_called_something_in_the_way(
    fork: CheckoutTree, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def edit() -> None:
        write_package(fork.package, {MIRROR: (fork.read(MIRROR) or b"") + b"mine = 1\n"})
        git(fork.root, "commit", "-qam", "Mine")

    just_before(monkeypatch, command, edit)
    with pytest.raises(TreeError, match=r"HEAD of .* moved while patchkit was running: nothing was changed"):
        commit(fork)


@pytest.mark.parametrize("meanwhile", ["commit -qnm Other --allow-empty", "switch -qc other"])
def test_a_branch_that_moved_while_hooks_ran_is_left_alone(fork: CheckoutTree, meanwhile: str) -> None:
    inner = f"env -u GIT_DIR -u GIT_INDEX_FILE -u GIT_PREFIX git -C {fork.root} {meanwhile} 2>&1"
    hook(fork, "pre-commit", f"[ -e {fork.root}/.git/once ] || {{ touch {fork.root}/.git/once; {inner}; }}")
    with pytest.raises(TreeError, match=r"HEAD of .* moved"):
        commit(fork, "t-flag")
    assert contents(fork) == {file: SOURCES[file] for file in contents(fork)}
    assert "Toy" not in git(fork.root, "log", "--all", "--format=%s")
    assert git(fork.root, "status", "--porcelain") == ""


def test_one_at_a_time_commits(fork: CheckoutTree) -> None:
    before = whole(fork)
    with locked(fork), pytest.raises(TreeError, match="another patchkit"):
        commit(fork)
    assert whole(fork) == before


def test_a_branch_that_cannot_be_written_leaves_files_and_index_as_they_were(fork: CheckoutTree) -> None:
    lock = fork.root / ".git" / f"{git(fork.root, 'symbolic-ref', 'HEAD').strip()}.lock"
    lock.touch()
    refused(fork, "could not be moved")
    lock.unlink()
    commit(fork)
    is_whole(fork)


def test_files_that_were_written_when_another_cannot_be_are_put_back(fork: CheckoutTree) -> None:
    (fork.package / "srt" / "a.py").write_bytes(b"# small\n")
    (fork.root / ".gitattributes").write_text("*.txt filter=brittle\n")
    (fork.root / "z.txt").write_bytes(b"small\n")
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "More files")
    git(fork.root, "config", "filter.brittle.smudge", "read text; echo $text; [ $text = small ]")
    git(fork.root, "config", "filter.brittle.clean", "cat")
    git(fork.root, "config", "filter.brittle.required", "true")
    made = "echo made > made.py; git add --force made.py"
    hook(fork, "pre-commit", f"{made}; echo '# more' > python/sglang/srt/a.py; echo more > z.txt")
    refused(fork, "could not be moved", "t-flag")


def test_a_disk_without_space_for_the_files_is_seen_before_they_are_changed(fork: CheckoutTree) -> None:
    def full(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "open" and arguments[0] == "0-part":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "0")

    with Faults(full).on():
        refused(fork, r": nothing was changed; fix the cause and try again\.$")


def dying(act: Callable[[], object], at: int) -> bool:
    """Do ``act`` in a process that is killed before its git call number ``at``; False if it makes fewer."""
    child = os.fork()
    if child == 0:
        calls = 0
        run = subprocess.run

        def counted(*words: Any, **keys: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at:
                os._exit(9)
            return run(*words, **keys)

        subprocess.run = counted
        try:
            act()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_a_kill_at_any_call_of_git_leaves_the_old_branch_or_the_new_one(
    fork: CheckoutTree, temporary: Path
) -> None:
    git(fork.root, "branch", "start")
    kept = {name: value for name, value in whole(fork).items() if name not in ("files", "reflog", "git")}
    ended = []
    for index in range(1, 200, 5):
        reached = dying(lambda: api.commit(fork, load.patches(), ("t-flag",)), index)
        api.recover(fork)
        assert git(fork.root, "worktree", "list").count("\n") == 1
        assert git(fork.root, "status", "--porcelain") == ""
        moved = git(fork.root, "rev-parse", "HEAD") != git(fork.root, "rev-parse", "start")
        ended.append(moved)
        if not moved:
            assert contents(fork) == {file: SOURCES[file] for file in contents(fork)}
            assert recorded(fork) == ()
            assert {name: whole(fork)[name] for name in kept} == kept
        else:
            assert set(recorded(fork)) == {"t-flag"}
            git(fork.root, "reset", "-q", "--hard", "start")
        if not reached:
            break
    assert ended[-1]
    assert not ended[0]
    assert list(temporary.iterdir()) == []


def test_a_worktree_that_somebody_uses_is_left_alone(
    fork: CheckoutTree, tmp_path: Path, temporary: Path
) -> None:
    git(fork.root, "worktree", "add", "-q", "--detach", str(tmp_path / "mine"))
    named = temporary / "patchkit-commit-mine" / "fork"
    git(fork.root, "worktree", "add", "-q", "--detach", str(named))
    commit(fork)
    assert named.is_dir()
    assert git(fork.root, "worktree", "list").count("\n") == 3


def test_what_a_killed_patchkit_left_of_another_repository_is_left_to_that_one(
    fork: CheckoutTree, tmp_path: Path, temporary: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(
        other,
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@example.com",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "A",
    )
    left = temporary / "patchkit-commit-left"
    git(other, "worktree", "add", "-q", "--detach", str(left / "other"))
    (left / "lock").touch()
    api.recover(fork)
    assert (left / "other" / ".git").is_file()
    shutil.rmtree(other)
    api.recover(fork)
    assert not left.exists()


def test_the_entry_of_a_worktree_that_was_swept_away_with_its_folder_goes_too(
    fork: CheckoutTree, temporary: Path
) -> None:
    named = temporary / "patchkit-commit-gone" / "fork"
    git(fork.root, "worktree", "add", "-q", "--detach", str(named))
    named.parent.rename(temporary / "elsewhere")
    api.recover(fork)
    assert git(fork.root, "worktree", "list").count("\n") == 1


# ---- kinds of checkout ---------------------------------------------------------------------------------------------


def test_a_submodule_is_left_alone(fork: CheckoutTree, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(fork.root), "other")
    git(fork.root, *ALLOWED, "submodule", "add", "-q", str(tmp_path / "other"), "part")
    git(fork.root, "commit", "-qm", "A part")
    git(fork.root, "config", "submodule.recurse", "true")
    (fork.root / "part" / "mine.txt").write_text("mine")
    commit(fork)
    assert (fork.root / "part" / "mine.txt").read_text() == "mine"
    assert git(fork.root, "submodule", "status").startswith(" ")
    (fork.root / "part" / "mine.txt").unlink()
    is_whole(fork)


def test_a_submodule_of_another_commit_is_not_checked_out_in_a_linked_worktree(
    fork: CheckoutTree, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", str(fork.root), "other")
    old = git(fork.root, "rev-parse", "HEAD").strip()
    git(fork.root, *ALLOWED, "submodule", "add", "-q", str(tmp_path / "other"), "part")
    git(fork.root, "commit", "-qm", "A part")
    git(fork.root, "config", "submodule.recurse", "true")
    mine = fork.root / "part" / "python" / "sglang" / MIRROR
    mine.write_bytes(b"mine = 1\n")
    before = whole(fork)
    with worktree.linked_worktree(fork, "a test") as linked:
        for commit in (old, linked.base):
            linked.switch(commit)
            assert linked.head == commit
            linked.read_tree(old)
            linked.read_tree(linked.base)
        assert not list((linked.top / "part").iterdir())
    assert mine.read_bytes() == b"mine = 1\n"
    assert whole(fork) == before


def test_a_checkout_that_is_a_submodule_is_committed_to(fork: CheckoutTree, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "above")
    git(tmp_path / "above", *ALLOWED, "submodule", "add", "-q", str(fork.root), "part")
    tree = committing(open_tree(tmp_path / "above" / "part"))
    commit(tree)
    is_whole(tree)


def test_a_package_that_is_a_repository_of_its_own_is_committed_to(tmp_path: Path) -> None:
    package = write_package(tmp_path / "sglang")
    git(package, "init", "-q")
    git(package, "add", ".")
    git(package, "commit", "-qm", "As upstream has it")
    git(package, "config", "user.name", "A Maintainer")
    git(package, "config", "user.email", "maintainer@example.com")
    tree = open_tree(package)
    commit(tree)
    assert git(package, "status", "--porcelain") == ""
    assert set(patched_states(tree).values()) == {"applied"}


def test_what_a_filter_makes_of_files_counts_as_they_stand(fork: CheckoutTree, tmp_path: Path) -> None:
    git(fork.root, "config", "filter.loud.smudge", "tr a-z A-Z")
    git(fork.root, "config", "filter.loud.clean", "tr A-Z a-z")
    (fork.root / ".gitattributes").write_text("*.txt filter=loud\n")
    (fork.root / "loud.txt").write_text("LOUD\n")
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "Loud")
    commit(fork)
    assert (fork.root / "loud.txt").read_text() == "LOUD\n"
    assert git(fork.root, "diff", "--name-only", "HEAD~3", "--", "*.txt") == ""
    is_whole(fork)


def test_files_that_git_would_write_otherwise_are_in_no_commit(fork: CheckoutTree) -> None:
    (fork.root / "notes.txt").write_bytes(b"one\r\n")
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "Line ends of another system")
    (fork.root / ".gitattributes").write_text("*.txt text\n")
    git(fork.root, "add", ".gitattributes")
    git(fork.root, "commit", "-qm", "Attributes")
    commit(fork)
    assert "notes.txt" not in git(fork.root, "log", "-3", "--name-only", "--format=")


def test_line_ends_of_a_checkout_are_the_ledgers(fork: CheckoutTree, tmp_path: Path) -> None:
    git(fork.root, "config", "core.autocrlf", "true")
    for file in (MIRROR, ABRUPT):
        (fork.package / file).unlink()
    git(fork.root, "checkout", "-q", ".")
    before = contents(fork)
    assert b"\r\n" in (before[MIRROR] or b"")
    commit(fork)
    assert git(fork.root, "status", "--porcelain") == ""
    assert b"\r\n" in (fork.read(MIRROR) or b"")
    api.revert(fork, load.patches())
    assert contents(fork) == before


def test_each_commit_taken_back_with_git_leaves_what_revert_can_take_back(fork: CheckoutTree) -> None:
    commit(fork)
    for _ in range(2):
        git(fork.root, "reset", "-q", "--hard", "HEAD~1")
        assert git(fork.root, "status", "--porcelain") == ""
    assert recorded(fork) == ("t-flag",)
    api.revert(fork, load.patches())
    assert contents(fork) == {file: SOURCES[file] for file in contents(fork)}


def test_settings_that_change_what_git_commits_and_merges_change_nothing(fork: CheckoutTree) -> None:
    settings = {
        "merge.ff": "false",
        "merge.autoStash": "true",
        "commit.cleanup": "scissors",
        "commit.verbose": "true",
        "core.commentChar": "T",
        "commit.template": "nowhere",
        "status.showUntrackedFiles": "no",
        "push.default": "nothing",
        "diff.noprefix": "true",
        "diff.relative": "true",
        "core.quotePath": "false",
        "worktree.guessRemote": "true",
        "gc.auto": "1",
    }
    for name, value in settings.items():
        git(fork.root, "config", name, value)
    commit(fork)
    assert git(fork.root, "log", "-1", "--format=%s").strip() == "Toy t-stop"
    is_whole(fork)


# ---- what is said --------------------------------------------------------------------------------------------------


def test_what_is_advised_after_commits_has_something_to_do(fork: CheckoutTree) -> None:
    ran = CliRunner().invoke(main, ["apply", str(fork.root), "--commit"])
    assert ran.exit_code == 0, ran.output
    assert "export" not in ran.output
    assert "verify" in ran.output


def test_a_refused_commit_exits_1_with_the_lines_of_the_hook_between_the_error_and_the_help(
    fork: CheckoutTree,
) -> None:
    hook(fork, "pre-commit", "echo checking; echo 'lint failed: x' >&2; exit 1")
    ran = CliRunner().invoke(main, ["apply", str(fork.root), "--commit", "--json"])
    assert (ran.exit_code, ran.stdout) == (1, "")
    what, *lines, advice = ran.stderr.splitlines()
    assert what.endswith("git refused the commit, so nothing was changed")
    assert lines == ["  checking", "  lint failed: x"]
    assert advice.startswith("help: fix the cause and try again")


def test_any_name_of_a_file_that_differs_after_checkout_is_accepted(fork: CheckoutTree) -> None:
    for name in ("w.md", "docs/\u6587.md", 'q"x.md', "-x.md", "a\nb.md"):
        path = fork.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"one\r\n")
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "Line ends")
    (fork.root / ".gitattributes").write_text("*.md text\n")
    git(fork.root, "add", ".gitattributes")
    git(fork.root, "commit", "-qm", "Attributes")
    commit(fork)
    assert set(patched_states(fork).values()) == {"applied"}


@pytest.mark.parametrize("end", [" ", "\u2028", "\x85", "\udcff"])
def test_any_name_of_a_checkout_is_accepted(fork: CheckoutTree, end: str) -> None:
    tree = open_tree(fork.root.rename(f"{fork.root}{end}"))
    commit(tree, "t-flag")
    assert patched_states(tree)["t-flag"] == "applied"


def test_a_pipe_that_another_user_made_among_temporary_folders_is_not_read(
    fork: CheckoutTree, temporary: Path
) -> None:
    place = temporary / "patchkit-commit-x" / "y"
    place.mkdir(parents=True)
    os.mkfifo(place / ".git")
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(60)
    try:
        commit(fork)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert set(patched_states(fork).values()) == {"applied"}


def test_nothing_in_the_folder_of_another_user_is_opened(
    fork: CheckoutTree, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = temporary / "patchkit-commit-x"
    (folder / "y").mkdir(parents=True)
    (folder / "y" / ".git").write_text("gitdir: nowhere\n")
    (folder / "lock").touch()
    opened, really = list[str](), os.open

    def recording(path: Any, *rest: Any, **more: Any) -> int:
        opened.append(str(path))
        return really(path, *rest, **more)

    monkeypatch.setattr(os, "open", recording)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    worktree.sweep(fork)
    assert not [path for path in opened if path.startswith(str(folder))]
    assert folder.exists()
    monkeypatch.setattr(os, "geteuid", lambda: owner)
    worktree.sweep(fork)
    assert [path for path in opened if path.startswith(str(folder))]
    assert not folder.exists()


def test_a_sparse_partial_clone_fetches_nothing(fork: CheckoutTree, tmp_path: Path) -> None:
    (fork.root / "apart").mkdir()
    (fork.root / "apart" / "large.txt").write_text("large\n")
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "Apart")
    git(fork.root, "config", "uploadpack.allowFilter", "true")
    git(fork.root, "config", "uploadpack.allowAnySHA1InWant", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--sparse", f"file://{fork.root}", str(clone))
    git(clone, "sparse-checkout", "set", "python")
    for key, value in (("user.name", "A Maintainer"), ("user.email", "maintainer@example.com")):
        git(clone, "config", key, value)
    git(clone, "remote", "set-url", "origin", "file:///nowhere")
    commit(open_tree(clone))
    assert set(patched_states(open_tree(clone)).values()) == {"applied"}
    assert git(clone, "rev-list", "--objects", "--all", "--missing=print").count("\n?") == 1


def test_an_interruption_from_the_keyboard_leaves_nothing(fork: CheckoutTree, temporary: Path) -> None:
    hook(fork, "pre-commit", f"kill -INT $(cat {temporary}.pid); sleep 1")
    before = whole(fork)
    pid = os.fork()
    if pid == 0:
        try:
            # A shell's background job has it ignored.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            Path(f"{temporary}.pid").write_text(str(os.getpid()))
            api.commit(fork, load.patches())
        except KeyboardInterrupt:
            os._exit(7)
        except BaseException:
            os._exit(8)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert whole(fork) == before
    assert list(temporary.iterdir()) == []
