from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.repositories import committing, copied, hook, patched_states, whole
from support.toys import ABRUPT, CRLF, MIRROR, add_patch, attribute, checked_in, edit, git, rewriting

from patchkit import api
from patchkit.cli import main
from patchkit.errors import ConflictError, PatchkitError, TreeError, UsageError
from patchkit.patchset import load
from patchkit.series.worktree import RefusedCommitError
from patchkit.transaction.revert import recorded
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., CheckoutTree]:
    """Return a function that makes, once each, the fork in which some branches are patched."""

    @cache
    def made(*branches: str) -> CheckoutTree:
        folder = tmp_path_factory.mktemp("made") / "fork"
        if branches:
            tree = copied(made(), folder)
            patched(tree, *branches)
            return tree
        tree = committing(checked_in(folder))
        git(tree.root, "branch", "-M", "vendor")
        git(tree.root, "checkout", "-qb", "release")
        edit(tree, MIRROR, b"    copies = 0", b"    pages = 64\n    copies = 0")
        git(tree.root, "commit", "-qam", "The new release")
        git(tree.root, "branch", "plain")
        return tree

    return made


@pytest.fixture
def forks(made: Callable[..., CheckoutTree], tmp_path: Path) -> Callable[..., CheckoutTree]:
    """Return a function that makes the fork in which some branches are patched, the last one checked out."""
    return lambda *branches: copied(made(*branches), tmp_path / "fork")


@pytest.fixture
def fork(forks: Callable[..., CheckoutTree]) -> CheckoutTree:
    """A vendor's branch on an old release; the new release moved a method and is patched too."""
    return forks()


def patched(tree: CheckoutTree, *branches: str) -> None:
    for branch in branches:
        git(tree.root, "checkout", "-q", branch)
        api.commit(tree, load.patches())


def moves(tree: CheckoutTree, ref: str) -> dict[str, tuple[str, str]]:
    found = api.rebase_check(tree, load.patches(), ref)
    return {move.patch: (move.now.state.value, move.then.state.value) for move in found}


def test_only_a_patch_that_is_applied_can_be_dropped(fork: CheckoutTree) -> None:
    git(fork.root, "checkout", "-qb", "newer", "plain")
    text = (fork.package / MIRROR).read_text()
    (fork.package / MIRROR).write_text(text.replace("copies = 0", "copies = 0\n    guard = 1"))
    git(fork.root, "commit", "-qam", "Upstream has one")
    git(fork.root, "checkout", "-q", "vendor")
    (outcome,) = [
        each.summary for each in api.rebase_check(fork, load.patches(), "newer") if each.patch == "t-guard"
    ]
    assert outcome == "in place there"
    patched(fork, "vendor")
    (outcome,) = [
        each.summary for each in api.rebase_check(fork, load.patches(), "newer") if each.patch == "t-guard"
    ]
    assert outcome == "in place there: drop yours"


def test_the_state_of_each_patch_after_the_move_is_shown(fork: CheckoutTree) -> None:
    git(fork.root, "checkout", "-qb", "newer", "plain")
    text = (fork.package / MIRROR).read_text()
    (fork.package / MIRROR).write_text(text.replace("copies = 0", "copies = 0\n    guard = 1"))
    (fork.package / ABRUPT).write_text("x = 1\n")
    git(fork.root, "commit", "-qam", "Upstream has one, and one has nowhere to go")
    patched(fork, "vendor")
    assert moves(fork, "newer") == {
        "t-flag": ("applied", "pending"),
        "t-guard": ("applied", "unknown"),
        "t-stop": ("applied", "conflict"),
    }


def test_the_command_exits_1_where_a_patch_conflicts(fork: CheckoutTree) -> None:
    git(fork.root, "checkout", "-q", "vendor")
    ran = CliRunner().invoke(main, ["rebase", str(fork.root), "--onto", "plain", "--json"])
    assert ran.exit_code == 0
    assert {patch["then"] for patch in json.loads(ran.stdout)["patches"]} == {"pending"}


@pytest.mark.parametrize("options", [(), ("--merge",), ("--json",)], ids=" ".join)
def test_mistyped_ref_is_a_usage_error(fork: CheckoutTree, options: tuple[str, ...]) -> None:
    before = whole(fork)
    ran = CliRunner().invoke(main, ["rebase", str(fork.root), "--onto", "nowhere", *options])
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: {fork.root} has no ref nowhere\nhelp: git fetch it there")
    assert whole(fork) == before


def test_ref_in_a_suggested_command_is_quoted_for_a_shell(fork: CheckoutTree) -> None:
    git(fork.root, "branch", "a;b$(c)", "plain")
    git(fork.root, "checkout", "-q", "vendor")
    ran = CliRunner().invoke(main, ["rebase", str(fork.root), "--onto", "a;b$(c)"])
    assert f"patchkit rebase {fork.root} --onto 'a;b$(c)' --merge merges it" in ran.stdout


def test_a_merge_is_offered_where_git_can_merge(fork: CheckoutTree, tmp_path: Path) -> None:
    def offered(root: Path, ref: str) -> str:
        ran = CliRunner().invoke(main, ["rebase", str(root), "--onto", ref])
        assert ran.exit_code == 0, ran.output
        return ran.stdout.rpartition("\n\n")[2]

    git(fork.root, "checkout", "-q", "--orphan", "alien")
    git(fork.root, "commit", "-qm", "Another history")
    git(fork.root, "checkout", "-q", "vendor")
    assert "--merge" not in offered(fork.root, "HEAD")
    assert offered(fork.root, "HEAD") == "This branch already has HEAD.\n"
    assert offered(fork.root, "alien") == (
        "Note: git cannot merge alien, which has no commit in common with this branch: to move to it, run git switch "
        f"--detach alien, then patchkit apply {fork.root}.\n"
    )
    git(fork.root, "checkout", "-qb", "newer", "plain")
    git(fork.root, "commit", "-q", "--allow-empty", "-m", "Newer")
    git(fork.root, "checkout", "-q", "vendor")
    assert offered(fork.root, "newer").startswith(f"Next: patchkit rebase {fork.root} --onto newer --merge")
    clone = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", "--no-single-branch", f"file://{fork.root}", str(clone))
    assert "run git fetch --unshallow" in offered(clone, "origin/newer")


def test_git_alone_conflicts_where_merging_without_patches_does_not(
    forks: Callable[..., CheckoutTree],
) -> None:
    fork = forks("release", "vendor")
    with pytest.raises(Exception, match="merge"):
        git(fork.root, "merge", "release")
    git(fork.root, "merge", "--abort")
    merged = api.merge(fork, load.patches(), "release")
    assert merged.merged == git(fork.root, "rev-parse", "release").strip()
    assert git(fork.root, "branch", "--merged").split() == ["plain", "release", "*", "vendor"]
    assert {status.state.value for status in api.status(fork, load.patches())} == {"applied"}
    assert b"pages = 64" in (fork.read(MIRROR) or b"")
    assert git(fork.root, "status", "--porcelain") == ""


def test_a_merge_that_conflicts_without_patches_changes_nothing_and_has_a_way(
    forks: Callable[..., CheckoutTree],
) -> None:
    fork = forks("vendor")
    edit(fork, MIRROR, b"    copies = 0", b"    pages = 16\n    copies = 0")
    git(fork.root, "commit", "-qam", "The vendor's own")
    leaves(fork, ConflictError, f"even without patches, in python/sglang/{MIRROR}, so nothing was changed")
    api.revert(fork, load.patches())
    git(fork.root, "commit", "-qam", "Take them back")
    with pytest.raises(Exception, match="merge"):
        git(fork.root, "merge", "release")
    git(fork.root, "checkout", "-q", "--theirs", "--", f"python/sglang/{MIRROR}")
    git(fork.root, "commit", "-qam", "merged")
    api.commit(fork, load.patches())
    assert set(patched_states(fork).values()) == {"applied"}


def test_uncommitted_changes_are_refused(forks: Callable[..., CheckoutTree]) -> None:
    fork = forks("vendor")
    (fork.package / ABRUPT).write_text("x = 1\n")
    with pytest.raises(TreeError, match="uncommitted changes"):
        api.merge(fork, load.patches(), "plain")


def test_a_ref_that_is_none_is_refused(forks: Callable[..., CheckoutTree]) -> None:
    fork = forks("vendor")
    with pytest.raises(UsageError, match="has no ref"):
        api.merge(fork, load.patches(), "nowhere")
    assert {status.state.value for status in api.status(fork, load.patches())} == {"applied"}


# ---- nothing is lost, and nothing changes unless all succeeds ------------------------------------------------------


def merged(tree: CheckoutTree, ref: str = "release") -> set[str]:
    """Merge, and return the patches that are applied then."""
    api.merge(tree, load.patches(), ref)
    assert git(tree.root, "status", "--porcelain") == ""
    found = {name for name, state in patched_states(tree).items() if state == "applied"}
    assert set(recorded(tree)) == found
    return found


def leaves(tree: CheckoutTree, kind: type[PatchkitError], match: str, ref: str = "release") -> None:
    """Assert that a merge is refused in one sentence and changes nothing."""
    before = whole(tree)
    with pytest.raises(kind, match=match) as caught:
        api.merge(tree, load.patches(), ref)
    assert "\n" not in str(caught.value)
    assert whole(tree) == before


def own(tree: CheckoutTree, name: str = "own.txt") -> None:
    (tree.root / name).write_text("own\n")
    git(tree.root, "add", name)


def test_what_a_person_amended_to_a_patchs_commit_is_merged(forks: Callable[..., CheckoutTree]) -> None:
    fork = forks("release")
    own(fork)
    edit(fork, MIRROR, b"depth = 1", b"depth = 4")
    git(fork.root, "commit", "-qa", "--amend", "--no-edit")
    patched(fork, "vendor")
    assert merged(fork) == {"t-flag", "t-guard", "t-stop"}
    assert (fork.root / "own.txt").read_text() == "own\n"
    assert b"depth = 4" in (fork.read(MIRROR) or b"")


def test_what_was_squashed_with_patches_is_merged(forks: Callable[..., CheckoutTree]) -> None:
    fork = forks("release")
    own(fork)
    git(fork.root, "commit", "-qm", "Own")
    message = git(fork.root, "log", "--format=%B", "plain..")
    git(fork.root, "reset", "-q", "--soft", "plain")
    git(fork.root, "commit", "-qm", f"Squash\n\n{message}")
    patched(fork, "vendor")
    assert merged(fork) == {"t-flag", "t-guard", "t-stop"}
    assert (fork.root / "own.txt").is_file()


def test_a_branch_without_patches_gets_those_of_what_it_merges_alone(fork: CheckoutTree) -> None:
    git(fork.root, "checkout", "-q", "vendor")
    own(fork)
    git(fork.root, "commit", "-qm", "Own")
    assert merged(fork, "plain") == set()
    git(fork.root, "checkout", "-q", "release")
    api.commit(fork, load.patches(), ("t-flag",))
    git(fork.root, "checkout", "-q", "vendor")
    assert merged(fork) == {"t-flag"}


def test_patches_of_both_sides_are_there_afterwards_and_no_other(fork: CheckoutTree) -> None:
    git(fork.root, "checkout", "-q", "release")
    api.commit(fork, load.patches(), ("t-flag",))
    git(fork.root, "checkout", "-q", "vendor")
    api.commit(fork, load.patches(), ("t-stop",))
    assert merged(fork) == {"t-flag", "t-stop"}


def test_after_a_merge_the_check_of_its_result_is_suggested(forks: Callable[..., CheckoutTree]) -> None:
    fork = forks("release", "vendor")
    ran = CliRunner().invoke(main, ["rebase", str(fork.root), "--onto", "release", "--merge"])
    assert ran.exit_code == 0, ran.output
    assert f"\nNext: patchkit verify {fork.root} checks the result\n" in ran.stdout


def test_a_branch_that_is_merged_already_is_left_as_it_is(forks: Callable[..., CheckoutTree]) -> None:
    fork = forks("release", "vendor")
    merged(fork)
    before = whole(fork)
    ran = CliRunner().invoke(main, ["rebase", str(fork.root), "--onto", "release", "--merge"])
    assert (ran.exit_code, "Nothing to merge" in ran.output) == (0, True)
    assert whole(fork) == before


def test_work_on_top_of_patches_is_merged_too(forks: Callable[..., CheckoutTree]) -> None:
    fork = forks("release")
    edit(fork, CRLF, b"stride = 1", b"stride = 2")
    git(fork.root, "commit", "-qam", "Work on top")
    patched(fork, "vendor")
    assert merged(fork) == {"t-flag", "t-guard", "t-stop"}
    assert b"stride = 2" in (fork.read(CRLF) or b"")
    edit(fork, ABRUPT, b"steps = 3", b"steps = 5")
    git(fork.root, "commit", "-qam", "More of ours")
    git(fork.root, "checkout", "-q", "release")
    edit(fork, CRLF, b"stride = 2", b"stride = 3")
    git(fork.root, "commit", "-qam", "More of theirs")
    git(fork.root, "checkout", "-q", "vendor")
    assert merged(fork) == {"t-flag", "t-guard", "t-stop"}
    assert b"stride = 3" in (fork.read(CRLF) or b"")
    assert b"steps = 5" in (fork.read(ABRUPT) or b"")


def test_a_merge_without_a_ledger_takes_what_was_there_from_git(
    forks: Callable[..., CheckoutTree], tmp_path: Path
) -> None:
    fork = forks("release", "vendor")
    git(tmp_path, "clone", "-q", str(fork.root), "clone")
    tree = committing(open_tree(tmp_path / "clone"))
    assert merged(tree, "origin/release") == {"t-flag", "t-guard", "t-stop"}


@pytest.mark.usefixtures("few_files")
def test_a_runtime_inside_the_tree_stays_there(fork: CheckoutTree, patch_folder: Path) -> None:
    imports = '["from patchkit.runtime import api_1 as patchkit_api"]'
    add_patch(
        patch_folder, "t-most", attribute(ABRUPT, "Worker", "most = patchkit_api.longest"), imports=imports
    )
    for branch in ("release", "vendor"):
        git(fork.root, "checkout", "-q", branch)
        api.commit(fork, load.patches(), runtime="vendored")
    assert merged(fork) == {"t-flag", "t-guard", "t-stop", "t-most"}
    assert b"from sglang._patchkit.runtime" in (fork.read(ABRUPT) or b"")
    assert fork.read("_patchkit/runtime/__init__.py") is not None


def test_a_hook_that_refuses_a_merge_is_no_conflict(forks: Callable[..., CheckoutTree]) -> None:
    fork = forks("release", "vendor")
    friday = "echo 'no merges on a Friday' >&2; exit 1"
    hook(fork, "pre-commit", f"git rev-parse -q --verify MERGE_HEAD >/dev/null || exit 0; {friday}")
    leaves(fork, RefusedCommitError, "nothing was changed: no merges on a Friday: ")


def test_a_history_of_its_own_is_no_conflict(forks: Callable[..., CheckoutTree]) -> None:
    fork = forks("vendor")
    git(fork.root, "checkout", "-q", "--orphan", "alien")
    git(fork.root, "commit", "-qm", "Another beginning")
    git(fork.root, "checkout", "-q", "vendor")
    leaves(fork, TreeError, "no commit in common with this branch: .*git switch --detach alien", "alien")


def test_a_formatter_that_runs_as_a_hook_is_heard_in_a_merge(forks: Callable[..., CheckoutTree]) -> None:
    fork = forks("release", "vendor")
    file = f"python/sglang/{MIRROR}"
    fix = f"grep -q 'pages = 64$' {file} || exit 0; sed -i 's/pages = 64$/pages = (64)/' {file}"
    hook(fork, "pre-commit", f"{fix}; exit 1")
    assert merged(fork) == {"t-flag", "t-guard", "t-stop"}
    assert b"pages = (64)" in (fork.read(MIRROR) or b"")


def test_an_edit_that_git_overlooks_is_not_lost_in_a_merge(forks: Callable[..., CheckoutTree]) -> None:
    fork = forks("release", "vendor")
    git(fork.root, "update-index", "--assume-unchanged", f"python/sglang/{MIRROR}")
    edit(fork, MIRROR, b"depth = 1", b"depth = 5")
    leaves(fork, TreeError, f"{MIRROR}.*nothing was changed")
    assert b"depth = 5" in (fork.read(MIRROR) or b"")


def test_an_untracked_file_that_a_merge_brings_is_kept(fork: CheckoutTree) -> None:
    git(fork.root, "checkout", "-q", "release")
    own(fork)
    git(fork.root, "commit", "-qm", "Own")
    patched(fork, "release", "vendor")
    (fork.root / "own.txt").write_text("mine\n")
    leaves(fork, TreeError, r"own\.txt.*nothing was changed")


@pytest.mark.parametrize(
    ("old", "new"), [("own", "own/part"), ("own/part", "own"), ("own/part", "own -> ABRUPT")]
)
def test_a_file_that_became_a_folder_or_a_folder_a_file_is_merged(
    fork: CheckoutTree, old: str, new: str
) -> None:
    git(fork.root, "checkout", "-q", "vendor")
    (fork.root / old).parent.mkdir(exist_ok=True)
    (fork.root / old).write_text("old\n")
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "Old")
    git(fork.root, "branch", "-f", "newer")
    git(fork.root, "checkout", "-q", "newer")
    git(fork.root, "rm", "-q", old)
    name, _, target = new.partition(" -> ")
    (fork.root / name).parent.mkdir(exist_ok=True)
    if target:
        (fork.root / name).symlink_to(target)
    else:
        (fork.root / name).write_text("new\n")
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "New")
    patched(fork, "vendor")
    assert api.merge(fork, load.patches(), "newer").merged
    assert git(fork.root, "status", "--porcelain") == ""
    assert git(fork.root, "rev-parse", f"HEAD:{name}") == git(fork.root, "rev-parse", f"newer:{name}")
    assert (fork.root / name).is_symlink() is bool(target)


def test_an_untracked_file_in_a_folder_that_became_a_file_is_kept(fork: CheckoutTree) -> None:
    git(fork.root, "checkout", "-q", "vendor")
    (fork.root / "own").mkdir()
    (fork.root / "own" / "part").write_text("old\n")
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "Old")
    git(fork.root, "branch", "-f", "release")
    git(fork.root, "checkout", "-q", "release")
    git(fork.root, "rm", "-q", "own/part")
    (fork.root / "own").write_text("new\n")
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "New")
    patched(fork, "vendor")
    (fork.root / "own" / "mine").write_text("mine\n")
    leaves(fork, TreeError, r"own.*nothing was changed")


def test_a_patch_that_conflicts_with_what_is_merged_is_left_out_and_the_others_are_applied(
    fork: CheckoutTree,
) -> None:
    git(fork.root, "checkout", "-q", "release")
    (fork.package / ABRUPT).write_text("x = 1\n")
    git(fork.root, "commit", "-qam", "Nothing left")
    patched(fork, "vendor")
    others = {name for name, state in patched_states(fork).items() if state == "applied"} - {"t-stop"}
    ran = CliRunner().invoke(main, ["rebase", str(fork.root), "--onto", "release", "--merge", "--json"])
    assert ran.exit_code == 1, ran.output
    answer = json.loads(ran.stdout)
    assert [each["patch"] for each in answer["left"]] == ["t-stop"]
    assert {each["patch"] for each in answer["commits"]} == others
    states = patched_states(fork)
    assert {states[name] for name in others} == {"applied"}
    assert states["t-stop"] == "conflict"
    assert (fork.package / ABRUPT).read_text() == "x = 1\n"
    assert git(fork.root, "status", "--porcelain") == ""


def test_a_conflict_of_a_patch_that_was_not_requested_fails_nothing(
    fork: CheckoutTree, patch_folder: Path
) -> None:
    nowhere = rewriting("nowhere", f"{ABRUPT}::Worker", "stop = 5", "stop = 6")
    add_patch(patch_folder, "t-optional", nowhere, default="false")
    patched(fork, "release", "vendor")
    for option in ((), ("--merge",)):
        ran = CliRunner().invoke(main, ["rebase", str(fork.root), "--onto", "release", *option, "--json"])
        assert ran.exit_code == 0, ran.output
    assert next(p for p in json.loads(ran.stdout)["patches"] if p["id"] == "t-optional")["then"] == "conflict"


def test_settings_of_merges_change_nothing(forks: Callable[..., CheckoutTree]) -> None:
    fork = forks("release", "vendor")
    settings = {
        "merge.ff": "only",
        "merge.autoStash": "true",
        "branch.vendor.mergeOptions": "--squash",
        "submodule.recurse": "true",
        "diff.noprefix": "true",
    }
    for name, value in settings.items():
        git(fork.root, "config", name, value)
    assert merged(fork) == {"t-flag", "t-guard", "t-stop"}
    assert len(git(fork.root, "log", "--merges", "--format=%H", "-1").split()) == 1


def test_a_detached_head_is_merged_to(forks: Callable[..., CheckoutTree]) -> None:
    fork = forks("release", "vendor")
    git(fork.root, "checkout", "-q", "--detach")
    assert merged(fork) == {"t-flag", "t-guard", "t-stop"}
    assert git(fork.root, "rev-parse", "vendor") != git(fork.root, "rev-parse", "HEAD")
