"""``revert --commit`` makes one commit, or changes nothing; git and patchkit go on from there as from any other."""

from __future__ import annotations

import json
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.faults import Faults, killings, telling
from support.repositories import clone, committing, copied, hook, patched_states, whole
from support.toys import ABRUPT, CRLF, MIRROR, SOURCES, add_patch, attribute, contents, edit, git, rewriting

from patchkit import api
from patchkit.cli import main
from patchkit.errors import ConflictError, TreeError, UnfinishedError
from patchkit.patchset import load
from patchkit.series.worktree import RefusedCommitError
from patchkit.transaction.store import Store
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")
FILES = (MIRROR, CRLF, ABRUPT)


@pytest.fixture
def fork(checkout: CheckoutTree) -> CheckoutTree:
    """A checkout with every patch committed."""
    tree = committing(checkout)
    git(tree.root, "tag", "start")
    api.commit(tree, load.patches())
    return tree


def revert(tree: CheckoutTree, *ids: str, keep_going: bool = False) -> str:
    return api.commit_revert(tree, load.patches(), ids, keep_going=keep_going).commit


def run(tree: CheckoutTree, *words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, [words[0], str(tree.root), *words[1:]], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def left(tree: CheckoutTree, match: str, *ids: str, kind: type[Exception] = TreeError) -> None:
    """Assert that a revert is refused with one sentence, and that nothing has changed."""
    before = whole(tree)
    with pytest.raises(kind, match=match):
        revert(tree, *ids)
    assert whole(tree) == before


def differing(tree: CheckoutTree, since: str = "start") -> str:
    return git(tree.root, "diff", "--name-only", since)


def test_it_is_one_commit_with_a_line_for_each_patch(fork: CheckoutTree) -> None:
    commit = revert(fork)
    assert git(fork.root, "rev-parse", "HEAD").strip() == commit
    assert git(fork.root, "log", "-1", "--format=%B").strip() == "\n".join(
        (
            "Revert Toy t-flag (and 2 more)",
            "",
            "Reverted with patchkit:",
            "- t-flag: Toy t-flag",
            "- t-guard: Toy t-guard",
            "- t-stop: Toy t-stop",
            "",
            "Patchkit-Revert: t-flag",
            "Patchkit-Revert: t-guard",
            "Patchkit-Revert: t-stop",
        )
    )
    assert git(fork.root, "log", "-g", "-1", "--format=%gs") == "patchkit revert --commit\n"
    assert git(fork.root, "rev-list", "--count", "start..").strip() == "4"
    assert differing(fork) == git(fork.root, "status", "--porcelain") == ""
    assert set(patched_states(fork).values()) == {"pending"}


def test_the_answer_names_the_commit(fork: CheckoutTree) -> None:
    answer = json.loads(run(fork, "revert", "t-guard", "--commit", "--json"))
    assert answer["commit"] == git(fork.root, "rev-parse", "HEAD").strip()
    assert answer["reverted"] == ["t-guard"]
    assert "in 1 commit." in run(fork, "revert", "--commit")
    assert "Nothing to revert." in run(fork, "revert", "--commit")
    assert json.loads(run(fork, "revert", "--commit", "--json")).get("commit") is None


def test_a_clone_without_a_ledger_commits_it_too(fork: CheckoutTree, tmp_path: Path) -> None:
    other = committing(clone(fork, tmp_path))
    revert(other, "t-guard")
    assert patched_states(other) == {"t-flag": "applied", "t-guard": "pending", "t-stop": "applied"}
    revert(other)
    assert differing(other) == ""
    assert not (other.package / ".patchkit").exists()


def test_git_revert_of_the_commit_brings_the_patches_back(fork: CheckoutTree, tmp_path: Path) -> None:
    patched = contents(fork)
    commit = revert(fork)
    git(fork.root, "revert", "--no-edit", commit)
    assert contents(fork) == patched
    for tree in (fork, committing(clone(fork, tmp_path))):
        assert set(patched_states(tree).values()) == {"applied"}
        revert(tree)
        assert differing(tree) == ""


def test_apply_makes_them_again(fork: CheckoutTree) -> None:
    revert(fork, "t-guard")
    assert [one.patch for one in api.commit(fork, load.patches()).commits] == ["t-guard"]
    revert(fork)
    assert differing(fork) == ""


def test_what_comes_from_upstream_after_it_is_upstreams(fork: CheckoutTree, tmp_path: Path) -> None:
    lines = (fork.package / MIRROR).read_text().splitlines(keepends=True)
    revert(fork, "t-guard")
    (fork.package / MIRROR).write_text("".join(line for line in lines if "patchkit t-guard" not in line))
    git(fork.root, "commit", "-qam", "As upstream has it")
    # Without the trailer it could be code of the patch whose comment was removed.
    other = committing(clone(fork, tmp_path))
    left(other, "t-guard: neither", "t-guard", kind=ConflictError)
    for tree in (other, fork):
        revert(tree)
        assert patched_states(tree) == {"t-flag": "pending", "t-guard": "unknown", "t-stop": "pending"}


def test_a_merge_leaves_a_reverted_patch_reverted(fork: CheckoutTree) -> None:
    git(fork.root, "branch", "-M", "vendor")
    git(fork.root, "checkout", "-qb", "release", "start")
    edit(fork, MIRROR, b"    copies = 0", b"    pages = 64\n    copies = 0")
    git(fork.root, "commit", "-qam", "The new release")
    git(fork.root, "checkout", "-q", "vendor")
    revert(fork, "t-guard")
    merged = api.merge(fork, load.patches(), "release")
    assert {one.patch for one in merged.commits} == {"t-flag", "t-stop"}
    assert patched_states(fork)["t-guard"] == "pending"


def test_a_persons_commits_since_are_kept(fork: CheckoutTree) -> None:
    edit(fork, MIRROR, b"class Mirror:", b"# mine\nclass Mirror:")
    git(fork.root, "commit", "-qam", "Mine")
    revert(fork)
    assert (fork.read(MIRROR) or b"").replace(b"# mine\n", b"") == SOURCES[MIRROR]
    assert git(fork.root, "status", "--porcelain") == ""


def test_what_cannot_be_reverted_is_left_and_the_others_are_committed(fork: CheckoutTree) -> None:
    edit(fork, MIRROR, b"guard = 1", b"guard = 2")
    git(fork.root, "commit", "-qam", "Mine")
    left(fork, "was edited after apply", kind=ConflictError)
    output = run(fork, "revert", "--commit", "--keep-going", code=1)
    assert "t-guard" in output
    assert "in 1 commit." in output
    trailers = git(fork.root, "log", "-1", "--format=%(trailers:key=Patchkit-Revert,valueonly)").split()
    assert "t-guard" not in trailers
    assert trailers
    assert git(fork.root, "status", "--porcelain") == ""


def test_uncommitted_changes_of_its_files_are_refused(fork: CheckoutTree) -> None:
    edit(fork, MIRROR, b"class Mirror:", b"# mine\nclass Mirror:")
    left(fork, rf"{MIRROR}: uncommitted changes: commit or stash them")
    git(fork.root, "add", ".")
    left(fork, rf"{MIRROR}: uncommitted changes: commit or stash them")


def test_a_patch_that_is_not_committed_is_reverted_without(fork: CheckoutTree, patch_folder: Path) -> None:
    add_patch(patch_folder, "t-own", attribute(MIRROR, "Mirror", "own = 1"))
    api.apply(fork, load.patches(), ("t-own",))
    match = rf"{MIRROR}: applied patches are not committed: leave out --commit, or commit them with git first"
    left(fork, match)
    left(fork, match, "t-own")
    # The others share no edit with it, and their file has changes.
    left(fork, "not committed", "t-guard")
    api.revert(fork, load.patches(), ("t-own",))
    revert(fork)
    assert differing(fork) == ""


def test_a_patch_that_is_neither_committed_nor_recorded_is_not_said_to_be_gone(fork: CheckoutTree) -> None:
    revert(fork, "t-guard")
    api.apply(fork, load.patches(), ("t-guard",))
    shutil.rmtree(fork.package / ".patchkit")
    for names in (("t-guard",), ()):
        left(fork, "applied patches are not committed", *names)


def test_half_a_merge_is_refused(fork: CheckoutTree) -> None:
    (fork.root / ".git" / "MERGE_HEAD").write_text(git(fork.root, "rev-parse", "HEAD"))
    left(fork, "a merge is in progress")


def test_outside_a_repository_it_is_refused(tree: CheckoutTree) -> None:
    with pytest.raises(TreeError, match="is in no git repository with a commit: leave out --commit"):
        revert(tree)


def test_a_hook_that_refuses_changes_nothing(fork: CheckoutTree) -> None:
    hook(fork, "pre-commit", "echo Not on Fridays >&2; exit 1")
    left(fork, "git refused the commit, so nothing was changed: Not on Fridays", kind=RefusedCommitError)
    run(fork, "revert", "--commit", code=1)


def test_what_a_formatter_makes_of_a_file_is_committed(fork: CheckoutTree) -> None:
    hook(fork, "pre-commit", f"echo '# formatted' >> python/sglang/{MIRROR}")
    left(fork, "change files again", kind=RefusedCommitError)
    once = f"grep -q formatted python/sglang/{MIRROR} || {{ echo '# formatted' >> python/sglang/{MIRROR}; exit 1; }}"
    hook(fork, "pre-commit", once)
    revert(fork)
    assert fork.read(MIRROR) == SOURCES[MIRROR] + b"# formatted\n"
    assert git(fork.root, "status", "--porcelain") == ""
    assert set(patched_states(fork).values()) == {"pending"}


def test_killed_at_any_call_it_is_the_old_commit_or_the_new_one(fork: CheckoutTree, tmp_path: Path) -> None:
    old, new, ended = contents(fork), {file: SOURCES[file] for file in contents(fork)}, []
    patches = load.patches()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tempfile.tempdir", str(temporary))
        for number in killings(partial(api.commit_revert, fork, patches), fork.root, temporary):
            if number % 3:
                continue
            (fork.root / ".git" / "index.lock").unlink(missing_ok=True)
            api.recover(fork)
            assert contents(fork) in (old, new)
            assert git(fork.root, "status", "--porcelain", "--untracked-files=no") == ""
            ended.append(contents(fork) == new)
    assert ended == sorted(ended)
    assert not ended[0]


def test_a_file_that_is_saved_meanwhile_is_kept(fork: CheckoutTree, tmp_path: Path) -> None:
    path, mine, outcomes = fork.package / MIRROR, b"mine = 1\n", set()
    head = git(fork.root, "rev-parse", "HEAD").strip()
    for number in telling(partial(revert, copied(fork, tmp_path / "told")))[::3]:
        saved: list[int] = []

        def saving(at: int, name: str, arguments: tuple[Any, ...], number: int = number) -> None:
            if at == number:
                path.write_bytes(mine)
                saved.append(at)  # noqa: B023  # it is called in this turn of the loop only

        with Faults(saving).on():
            try:
                revert(fork)
                outcomes.add("moved")
            except UnfinishedError:
                outcomes.add("unfinished")
            except TreeError:
                outcomes.add("refused")
        kept = [file for file in fork.package.rglob("*") if file.is_file() and file.read_bytes() == mine]
        assert kept or not saved
        if Store(fork.package).pending:
            kept[0].unlink()
            api.recover(fork)
        git(fork.root, "reset", "-q", "--hard", head)
    assert {"moved", "refused"} <= outcomes


def test_a_branch_that_a_hook_of_refs_keeps_stays(fork: CheckoutTree) -> None:
    hook(fork, "reference-transaction", '[ "$1" != prepared ] || [ ! -e .git/index.lock ] || exit 1')
    before = whole(fork)
    with pytest.raises(TreeError, match=r"could not be moved"):
        revert(fork)
    (fork.root / ".git" / "hooks" / "reference-transaction").unlink()
    assert whole(fork) == before
    assert open_tree(fork.root) == fork


@pytest.mark.parametrize("how", ["commit", "plain"])
def test_what_a_person_finished_by_hand_is_reverted_each_time_that_it_comes_back(
    checkout: CheckoutTree, patch_folder: Path, how: str
) -> None:
    fork = committing(checkout)
    find = "return self.copies.cpu()"
    add_patch(
        patch_folder,
        "t-hand",
        attribute(MIRROR, "Mirror", "sure = True"),
        rewriting("copy", f"{MIRROR}::Mirror.host", find, "return self.copies.numpy()"),
    )
    patches, before = load.patches(), contents(fork)

    def back() -> None:
        if how == "commit":
            revert(fork, "t-hand")
        else:
            api.revert(fork, patches, ("t-hand",))
            git(fork.root, "commit", "-qam", "Back")
        assert contents(fork) == before

    api.apply(fork, patches, ("t-hand",), markers=True)
    path = fork.package / MIRROR
    head, _, rest = path.read_bytes().partition(b"<<<<<<<")
    tail = rest.partition(b">>>>>>>")[2].partition(b"\n")[2]
    path.write_bytes(head + b"        return self.copies.numpy()\n" + tail)
    api.resolve(fork, patches, "t-hand", "copy")
    git(fork.root, "add", "-A")
    git(fork.root, "commit", "-qm", "By hand")
    by_hand = contents(fork)
    back()
    for _ in range(2):
        git(fork.root, "revert", "--no-edit", "HEAD")
        assert contents(fork) == by_hand
        assert patched_states(fork)["t-hand"] == "applied"
        back()
        api.apply(fork, patches, ("t-hand",), resolved=True)
        assert contents(fork) == by_hand
        git(fork.root, "add", "-A")
        git(fork.root, "commit", "-qm", "By hand again")
        back()
