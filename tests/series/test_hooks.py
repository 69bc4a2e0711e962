"""Hooks judge each commit where it is made, and what they make of a file becomes part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ruff.__main__ import find_ruff_bin
from support.releases import run
from support.repositories import committing, hook, patched_states, whole
from support.toys import ABRUPT, MIRROR, add_patch, attribute, contents, edit, git, new_file_edit

from patchkit import api
from patchkit.errors import TreeError
from patchkit.patchset import load
from patchkit.plan.vendor import runtime_files
from patchkit.series.worktree import RefusedCommitError

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")


@pytest.fixture
def fork(checkout: CheckoutTree) -> CheckoutTree:
    return committing(checkout)


def subjects(tree: CheckoutTree) -> list[str]:
    return git(tree.root, "log", "--reverse", "--format=%s").splitlines()[1:]


def refuses(tree: CheckoutTree, match: str, *ids: str) -> None:
    before = whole(tree)
    with pytest.raises(RefusedCommitError, match=match) as caught:
        api.commit(tree, load.patches(), ids)
    assert "nothing was changed" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert whole(tree) == before


def test_a_hook_that_asks_git_by_a_pattern_gets_its_files(fork: CheckoutTree) -> None:
    hook(fork, "pre-commit", "git diff --cached --name-only -- '*.py' | grep -q . || exit 1")
    api.commit(fork, load.patches())
    assert subjects(fork) == ["Toy t-flag", "Toy t-guard", "Toy t-stop"]


def test_a_hook_gets_a_persons_environment(
    fork: CheckoutTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("GIT_DIR", "elsewhere")
    hook(fork, "pre-commit", f"env > {tmp_path}/told")
    api.commit(fork, load.patches(), ("t-flag",))
    monkeypatch.delenv("GIT_DIR")
    environment = dict(line.partition("=")[::2] for line in (tmp_path / "told").read_text().splitlines())
    assert environment["LC_ALL"] == "C.UTF-8"
    assert "elsewhere" not in environment.values()
    assert not {"GIT_LITERAL_PATHSPECS", "GIT_NO_REPLACE_OBJECTS", "GIT_TERMINAL_PROMPT"} & environment.keys()


FORMAT = f"""\
file=python/sglang/{MIRROR}
grep -q 'needs_host = False$' $file || exit 0
sed -i 's/needs_host = False$/needs_host = (False)/; s/^depth = 1$/depth = (1)/' $file
"""


@pytest.mark.parametrize("ending", ["exit 1", "git add $file", "exit 0"], ids=["refuses", "adds", "goes-on"])
def test_what_a_formatter_makes_of_a_file_is_what_is_committed(fork: CheckoutTree, ending: str) -> None:
    before = contents(fork)
    hook(fork, "pre-commit", FORMAT + ending)
    api.commit(fork, load.patches())
    assert subjects(fork) == ["Toy t-flag", "Toy t-guard", "Toy t-stop"]
    assert git(fork.root, "status", "--porcelain") == ""
    first = git(fork.root, "show", f"HEAD~2:python/sglang/{MIRROR}")
    assert "needs_host = (False)" in first
    assert "depth = (1)" in first
    assert set(patched_states(fork).values()) == {"applied"}
    api.revert(fork, load.patches())
    assert contents(fork) == before


@pytest.mark.parametrize("more", [1, 2])
def test_files_that_a_hook_changed_in_a_commit_are_counted(fork: CheckoutTree, more: int) -> None:
    others = [f"python/sglang/{ABRUPT}", "notes.txt"][:more]
    (fork.root / "notes.txt").write_text("")
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "Notes")
    hook(
        fork,
        "pre-commit",
        f"for file in {' '.join(others)}; do printf '# formatted\\n' >> $file; git add $file; done",
    )
    counted = f"; git's hooks changed {more} more file{'s' * (more > 1)}."
    assert f"Changed 1 file in 1 commit{counted}" in run("apply", fork.root, "t-guard", "--commit").output
    assert f"Changed 1 file in 1 commit{counted}" in run("revert", fork.root, "t-guard", "--commit").output
    git(fork.root, "checkout", "-qb", "theirs")
    edit(fork, MIRROR, b"depth = 1", b"depth = 3")
    git(fork.root, "commit", "-qanm", "Theirs (#77)")
    git(fork.root, "checkout", "-q", "-")
    ported = run("port", "theirs", "--repo", fork.root, "--onto", fork.root, "--commit").output
    assert f"Changed 1 file{counted}" in ported


def test_a_formatter_that_is_never_content_is_refused(fork: CheckoutTree) -> None:
    hook(fork, "pre-commit", f"echo '#' >> python/sglang/{MIRROR}; echo 'added a line'; exit 1")
    refuses(fork, "change files again at each commit, so nothing was changed: added a line: ")


def test_a_hook_that_takes_a_commit_back_has_refused_it(fork: CheckoutTree) -> None:
    hook(fork, "post-commit", "git reset -q --hard HEAD~1")
    refuses(fork, "hooks removed the commit")


def refusal(tree: CheckoutTree) -> list[str]:
    """Return the lines that patchkit prints for a refused commit, without the first and the last."""
    before = whole(tree)
    done = run("apply", tree.root, "--commit", code=1)
    assert (done.stdout, whole(tree)) == ("", before)
    first, *lines, last = done.stderr.splitlines()
    assert first == "error: t-flag: git refused the commit, so nothing was changed"
    assert last.startswith("help: fix the cause and try again; ")
    return lines


def test_the_lines_of_a_hook_that_refuses_a_commit_are_printed_unchanged(fork: CheckoutTree) -> None:
    words = ["Checking ...", "", "  lint: failed.", "run patchkit status; then 'fix' it"]
    hook(fork, "pre-commit", f"cat << 'END'\n{chr(10).join(words)}\nEND\necho late >&2; exit 1")
    expected = ["Checking ...", "  lint: failed.", "run patchkit status; then 'fix' it", "late"]
    assert refusal(fork) == [f"  {line}" for line in expected]
    with pytest.raises(RefusedCommitError) as caught:
        api.commit(fork, load.patches())
    assert caught.value.reasons == tuple(expected)
    assert f": {'; '.join(expected)}: fix the cause" in str(caught.value)


@pytest.mark.parametrize(
    ("count", "cut"), [(20, []), (21, ["  ... 1 earlier line"]), (45, ["  ... 25 earlier lines"])]
)
def test_of_a_hook_that_prints_much_the_last_lines_are_printed(
    fork: CheckoutTree, count: int, cut: list[str]
) -> None:
    hook(fork, "pre-commit", f"seq {count}; exit 1")
    assert refusal(fork) == [*cut, *(f"  {number}" for number in range(count - 19, count + 1))]


def test_of_a_long_line_of_a_hook_the_start_is_printed(fork: CheckoutTree) -> None:
    hook(fork, "pre-commit", "seq 60000 | tr '\\n' ' '; echo; echo end; exit 1")
    first, last = refusal(fork)
    assert (first.endswith("..."), len(first) < 600, last) == (True, True, "  end")


def test_a_process_that_a_hook_leaves_in_the_background_is_not_waited_for(
    fork: CheckoutTree, tmp_path: Path
) -> None:
    go, ended = tmp_path / "go", tmp_path / "ended"
    waiting = f"for i in $(seq 600); do [ -e {go} ] && break; sleep 0.1; done; touch {ended}"
    hook(fork, "pre-commit", f"({waiting}) & exit 0")
    run("apply", fork.root, "--commit")
    assert not ended.exists()
    go.touch()


def test_git_that_a_signal_ends_is_reported(fork: CheckoutTree) -> None:
    hook(fork, "pre-commit", "kill -KILL $PPID; sleep 1")
    assert refusal(fork) == ["  git was ended by the signal SIGKILL"]


def test_control_characters_of_a_hook_are_not_printed(fork: CheckoutTree) -> None:
    hook(fork, "pre-commit", r"printf '\033[1;31mlint\033[m\tno\033]0;title\a\r\nlatin \351\n'; exit 1")
    assert refusal(fork) == [r"  lint no\x1b]0;title\x07", "  latin \ufffd"]


def test_a_hook_that_refuses_a_commit_without_a_word_is_reported(fork: CheckoutTree) -> None:
    hook(fork, "pre-commit", "exit 1")
    assert refusal(fork) == ["  no message was printed"]


def test_a_hook_that_removes_where_it_runs_is_a_refusal(fork: CheckoutTree) -> None:
    hook(fork, "pre-commit", 'rm -rf "$PWD"')
    before = whole(fork)
    with pytest.raises(TreeError, match="nothing was changed"):
        api.commit(fork, load.patches())
    assert whole(fork) == before


def test_another_file_that_a_hook_writes_is_committed_with_it(fork: CheckoutTree) -> None:
    hook(fork, "pre-commit", "git diff --cached --name-only > list.txt; git add list.txt")
    (fork.root / "list.txt").write_text("nothing\n")
    git(fork.root, "add", "list.txt")
    git(fork.root, "commit", "-qnm", "A list")
    api.commit(fork, load.patches(), ("t-stop",))
    assert "abrupt.py" in (fork.root / "list.txt").read_text()
    assert git(fork.root, "status", "--porcelain") == ""


def test_another_file_that_a_hook_writes_is_not_taken_from_who_edits_it(fork: CheckoutTree) -> None:
    (fork.root / "list.txt").write_text("nothing\n")
    git(fork.root, "add", "list.txt")
    git(fork.root, "commit", "-qm", "A list")
    hook(fork, "pre-commit", "git diff --cached --name-only > list.txt; git add list.txt")
    (fork.root / "list.txt").write_text("mine\n")
    before = whole(fork)
    with pytest.raises(TreeError, match=r"list\.txt.*nothing was changed"):
        api.commit(fork, load.patches())
    assert whole(fork) == before


def test_a_hook_that_takes_the_set_alone_gets_one_commit(fork: CheckoutTree) -> None:
    before = contents(fork)
    hook(fork, "pre-commit", f"grep -q limit python/sglang/{ABRUPT} && grep -q guard python/sglang/{MIRROR}")
    made = api.commit(fork, load.patches()).commits
    assert len({one.commit for one in made}) == 1
    assert set(patched_states(fork).values()) == {"applied"}
    api.revert(fork, load.patches())
    assert contents(fork) == before


@pytest.mark.parametrize("kept", [True, False], ids=["in-git", "untracked"])
def test_a_relative_folder_of_hooks_is_found(fork: CheckoutTree, kept: bool) -> None:
    folder = fork.root / ".hooks"
    folder.mkdir()
    (folder / "pre-commit").write_text("#!/bin/sh\necho 'seen'; exit 1\n")
    (folder / "pre-commit").chmod(0o755)
    if kept:
        git(fork.root, "add", ".hooks")
        git(fork.root, "commit", "-qm", "Hooks")
    git(fork.root, "config", "core.hooksPath", ".hooks")
    refuses(fork, "seen")


def test_a_hook_that_lacks_an_untracked_file_is_reported(fork: CheckoutTree) -> None:
    (fork.root / "node_modules").mkdir()
    (fork.root / "node_modules" / "lint").write_text("exit 0")
    hook(fork, "pre-commit", "sh node_modules/lint")
    refuses(fork, "hooks run in a separate worktree without untracked files")


def test_a_file_that_a_refused_commit_would_have_made_is_not_in_the_index(
    fork: CheckoutTree, patch_folder: Path
) -> None:
    add_patch(patch_folder, "t-make", new_file_edit("srt/fresh/new.py", "made = 1"))
    hook(fork, "pre-commit", "exit 1")
    refuses(fork, "t-make", "t-make")


def test_a_signature_that_cannot_be_made_is_a_refusal(fork: CheckoutTree) -> None:
    git(fork.root, "config", "commit.gpgSign", "true")
    git(fork.root, "config", "gpg.program", "false")
    refuses(fork, "gpg failed")


def test_hooks_of_a_checkout_or_a_merge_are_not_run(fork: CheckoutTree, tmp_path: Path) -> None:
    for name in ("post-checkout", "post-merge", "post-rewrite", "post-index-change"):
        hook(fork, name, f"case $PWD in {fork.root}*) echo {name} >> {tmp_path}/ran;; esac")
    hook(fork, "post-checkout", f"echo post-checkout >> {tmp_path}/ran")
    api.commit(fork, load.patches())
    assert not (tmp_path / "ran").exists()


def test_a_later_patch_and_a_revert_follow_a_formatter(fork: CheckoutTree) -> None:
    hook(fork, "pre-commit", FORMAT + "exit 1")
    api.commit(fork, load.patches(), ("t-flag",))
    api.commit(fork, load.patches())
    assert set(patched_states(fork).values()) == {"applied"}
    api.revert(fork, load.patches(), ("t-stop",))
    assert patched_states(fork)["t-stop"] == "pending"
    assert b"guard = 1" in (fork.read(MIRROR) or b"")


def test_the_runtime_inside_a_tree_stays_as_it_is_under_a_forks_formatters(
    fork: CheckoutTree, patch_folder: Path
) -> None:
    imports = '["from patchkit.runtime import api_1 as patchkit_api"]'
    most = attribute(ABRUPT, "Worker", "most = patchkit_api.longest")
    add_patch(patch_folder, "t-most", most, imports=imports)
    sorting = "check --select I,F401,UP037 --fix --config 'lint.isort.force-single-line = true'"
    options = "--quiet --isolated --no-cache --config 'line-length = 60'"
    tool = f"'{find_ruff_bin()}'"
    hook(
        fork,
        "pre-commit",
        f"{tool} {sorting} {options} python; {tool} format {options} python; git diff --quiet",
    )
    api.commit(fork, load.patches(), runtime="vendored")
    assert {file: fork.read(file) for file in runtime_files()} == runtime_files()
    assert api.apply(fork, load.patches()).files == ()
    assert set(patched_states(fork).values()) == {"applied"}


def test_the_hook_of_references_may_refuse_to_move_the_branch(fork: CheckoutTree, tmp_path: Path) -> None:
    # A commit in the linked worktree moves no branch.
    branch = git(fork.root, "symbolic-ref", "HEAD").strip()
    hook(
        fork,
        "reference-transaction",
        f'while read -r old new name; do echo "$1 $name" >> {tmp_path}/asked; '
        f'[ "$1 $name" = "prepared {branch}" ] && {{ echo "frozen until Monday" >&2; exit 1; }}; done; exit 0',
    )
    before = whole(fork)
    with pytest.raises(TreeError, match="nothing was changed") as caught:
        api.commit(fork, load.patches())
    assert whole(fork) == before
    assert "could not be moved" in str(caught.value)
    hook(fork, "reference-transaction", f"cat >> {tmp_path}/moved")
    api.commit(fork, load.patches())
    assert f" {branch}\n" in (tmp_path / "moved").read_text()
    assert subjects(fork) == ["Toy t-flag", "Toy t-guard", "Toy t-stop"]
