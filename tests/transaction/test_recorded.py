"""The record follows the code through git, says whose each edit is, and never that something is applied."""

from __future__ import annotations

import re
import shutil
from subprocess import CalledProcessError
from typing import TYPE_CHECKING

import pytest
from support.repositories import clone, committing
from support.toys import (
    CRLF,
    MIRROR,
    add_patch,
    attribute,
    contents,
    edit,
    everything,
    git,
    rewriting,
    statement,
)

from patchkit import api
from patchkit.errors import ConflictError, PatchkitError, TreeError
from patchkit.patchset.load import patches as load
from patchkit.patchset.select import PatchSet
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

LOCK = "patchkit.lock"
PULL = "https://github.com/sgl-project/sglang/pull"
COMMENT = re.compile(rb"^[ \t]*# patchkit .*\r?\n", re.MULTILINE)
OURS = ("7", "8", "pk-own")
"""What nothing but the record tells apart from upstream's, once its comments are gone."""


@pytest.fixture
def patches(patch_folder: Path) -> PatchSet:
    """Patches of upstream's pull requests, one with facts that our own code meets, and one of our own."""
    landed = f'[{{ at = "{MIRROR}", has = "depth = 2" }}]'
    depth = rewriting("depth", MIRROR, "depth = 1", "depth = 2")
    add_patch(patch_folder, "7", depth, upstream=f'"{PULL}/7"', upstream_when=landed)
    add_patch(patch_folder, "8", attribute(CRLF, "Backend", "own = 1"), upstream=f'"{PULL}/8"')
    add_patch(patch_folder, "pk-own", attribute(MIRROR, "Mirror", "ours = True"))
    return load()


@pytest.fixture
def fork(checkout: CheckoutTree) -> CheckoutTree:
    return committing(checkout)


def tidy(tree: CheckoutTree) -> None:
    """Remove every comment of patchkit's, as a tidy person or a formatter may."""
    for file in (MIRROR, CRLF):
        (tree.package / file).write_bytes(COMMENT.sub(b"", (tree.package / file).read_bytes()))


def states(tree: CheckoutTree, patches: PatchSet) -> list[str]:
    found = {status.patch.id: status.state.value for status in api.status(tree, patches)}
    return [found[name] for name in OURS]


def committed(tree: CheckoutTree, message: str = "A change") -> None:
    git(tree.root, "add", "-A")
    git(tree.root, "commit", "-qm", message)


def require_ours(tree: CheckoutTree, patches: PatchSet, before: dict[str, bytes | None]) -> None:
    """Assert that the patches are ours in every answer, and that a revert leaves the tree as it was."""
    assert states(tree, patches) == ["applied"] * 3
    assert set(api.revert(tree, patches).patches) == set(OURS)
    assert contents(tree) == before
    assert not (tree.root / LOCK).exists()
    assert not (tree.package / ".patchkit").exists()


@pytest.mark.parametrize("is_committed", [False, True])
def test_patches_without_any_comment_are_ours(
    fork: CheckoutTree, patches: PatchSet, is_committed: bool
) -> None:
    before = contents(fork)
    api.apply(fork, patches, OURS)
    tidy(fork)
    if is_committed:
        committed(fork)
    require_ours(fork, patches, before)


def test_patches_without_any_comment_are_ours_in_a_clone(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path
) -> None:
    before = contents(fork)
    api.commit(fork, patches, OURS)
    assert git(fork.root, "status", "--porcelain") == ""
    tidy(fork)
    committed(fork, "Tidy")
    require_ours(clone(fork, tmp_path), patches, before)


def test_squash_and_amend_keep_the_record(fork: CheckoutTree, patches: PatchSet, tmp_path: Path) -> None:
    before, first = contents(fork), git(fork.root, "rev-parse", "HEAD").strip()
    api.commit(fork, patches, OURS)
    git(fork.root, "reset", "-q", "--soft", first)
    tidy(fork)
    committed(fork, "All at once")
    (fork.root / "notes.txt").write_text("mine")
    git(fork.root, "add", "notes.txt")
    git(fork.root, "commit", "-q", "--amend", "--no-edit")
    require_ours(clone(fork, tmp_path), patches, before)


def test_shallow_clone_knows_whose_they_are_and_says_what_it_lacks(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path
) -> None:
    before = contents(fork)
    api.commit(fork, patches, OURS)
    tidy(fork)
    committed(fork, "Tidy")
    there = clone(fork, tmp_path, "--depth=1")
    mine = everything(there.root)
    assert states(there, patches) == ["applied"] * 3
    with pytest.raises(PatchkitError, match="git fetch --unshallow"):
        api.revert(there, patches)
    assert everything(there.root) == mine
    git(there.root, "fetch", "-q", "--unshallow")
    require_ours(there, patches, before)


def test_record_of_a_branch_goes_and_comes_with_it(fork: CheckoutTree, patches: PatchSet) -> None:
    git(fork.root, "checkout", "-qb", "patched")
    before = contents(fork)
    api.commit(fork, patches, OURS)
    git(fork.root, "checkout", "-q", "-")
    assert states(fork, patches) == ["pending"] * 3
    assert api.revert(fork, patches).patches == ()
    git(fork.root, "checkout", "-q", "patched")
    require_ours(fork, patches, before)


@pytest.mark.parametrize("name", OURS)
def test_commit_of_one_patch_is_picked_to_another_branch(
    fork: CheckoutTree, patches: PatchSet, name: str
) -> None:
    git(fork.root, "branch", "other")
    api.commit(fork, patches, (name,))
    picked = git(fork.root, "rev-parse", "HEAD").strip()
    git(fork.root, "checkout", "-q", "other")
    edit(fork, MIRROR, b"class Mirror:", b"mine = 1\n\n\nclass Mirror:")
    committed(fork, "Mine")
    before = contents(fork)
    git(fork.root, "cherry-pick", picked)
    tidy(fork)
    assert states(fork, patches)[OURS.index(name)] == "applied"
    assert api.revert(fork, patches).patches == (name,)
    assert contents(fork) == before


def test_one_of_several_commits_is_reverted_by_git(fork: CheckoutTree, patches: PatchSet) -> None:
    before = contents(fork)
    api.commit(fork, patches, OURS)
    git(fork.root, "revert", "--no-edit", "HEAD")
    tidy(fork)
    assert states(fork, patches) == ["applied", "applied", "pending"]
    assert set(api.revert(fork, patches).patches) == {"7", "8"}
    assert contents(fork) == before


def log(tree: CheckoutTree) -> list[str]:
    return git(tree.root, "log", "--reverse", "--format=%H").split()


def recorded_in(tree: CheckoutTree) -> list[str]:
    return sorted(path.stem for path in (tree.root / LOCK).iterdir())


@pytest.fixture
def series(fork: CheckoutTree, patches: PatchSet) -> CheckoutTree:
    """A fork with a commit for each of three patches."""
    api.commit(fork, patches, OURS)
    assert recorded_in(fork) == [*OURS]
    return fork


@pytest.mark.parametrize("name", OURS)
def test_git_revert_of_any_commit_of_a_series_keeps_the_others(
    series: CheckoutTree, patches: PatchSet, name: str
) -> None:
    first, *made = log(series)
    subjects = {git(series.root, "show", "-s", "--format=%s", each).split(":")[0]: each for each in made}
    (commit,) = (each for subject, each in subjects.items() if name in subject)
    git(series.root, "revert", "--no-edit", commit)
    assert recorded_in(series) == [each for each in OURS if each != name]
    tidy(series)
    assert states(series, patches) == ["pending" if each == name else "applied" for each in OURS]
    assert set(api.revert(series, patches).patches) == {*OURS} - {name}
    assert git(series.root, "diff", "--stat", first) == ""
    assert not (series.root / LOCK).exists()


def test_git_reverts_two_commits_of_one_file_and_patchkit_commits_in_between(
    fork: CheckoutTree, patch_folder: Path, patches: PatchSet
) -> None:
    add_patch(
        patch_folder, "pk-host", rewriting("host", f"{MIRROR}::Mirror.host", "return $x", "return int($x)")
    )
    patches = load()
    first = log(fork)[-1]
    for name in ("7", "pk-own", "pk-host"):
        api.commit(fork, patches, (name,))
    git(fork.root, "revert", "--no-edit", "HEAD~1")
    api.commit(fork, patches, ("8",))
    assert git(fork.root, "show", "--format=", "--name-only").split() == [
        f"{LOCK}/8.toml",
        f"python/sglang/{CRLF}",
    ]
    git(fork.root, "revert", "--no-edit", "HEAD~2")
    assert recorded_in(fork) == ["7", "8"]
    assert states(fork, patches) == ["applied", "applied", "pending"]
    assert set(api.revert(fork, patches).patches) == {"7", "8"}
    assert git(fork.root, "diff", "--stat", first) == ""


def test_interactive_rebase_drops_one_and_swaps_the_others(
    fork: CheckoutTree, patch_folder: Path, patches: PatchSet
) -> None:
    add_patch(patch_folder, "pk-second", attribute(CRLF, "Backend", "second = 1"))
    patches = load()
    before = contents(fork)
    names = ("7", "8", "pk-own", "pk-second")
    for name in ("8", "7", "pk-second"):
        api.commit(fork, patches, (name,))
    edits = 'sed -i -e "1{h;d}" -e "2{G}" -e "3d"'
    git(fork.root, "-c", f"sequence.editor={edits}", "rebase", "-q", "-i", "HEAD~3")
    assert recorded_in(fork) == ["7", "8"]
    tidy(fork)
    found = {status.patch.id: status.state.value for status in api.status(fork, patches)}
    assert [found[name] for name in names] == ["applied", "applied", "pending", "pending"]
    assert set(api.revert(fork, patches).patches) == {"7", "8"}
    assert contents(fork) == before


def test_one_commit_is_picked_to_a_branch_that_has_others(fork: CheckoutTree, patches: PatchSet) -> None:
    before = contents(fork)
    git(fork.root, "branch", "other")
    api.commit(fork, patches, ("7", "8"))
    picked = next(each for each in log(fork) if "7" in git(fork.root, "show", "-s", "--format=%s", each))
    git(fork.root, "checkout", "-q", "other")
    api.commit(fork, patches, ("pk-own",))
    git(fork.root, "cherry-pick", picked)
    assert recorded_in(fork) == ["7", "pk-own"]
    tidy(fork)
    assert states(fork, patches) == ["applied", "pending", "applied"]
    assert set(api.revert(fork, patches).patches) == {"7", "pk-own"}
    assert contents(fork) == before


@pytest.mark.parametrize(("mode", "folder"), [("--cone", "python"), ("--no-cone", "/python/")])
def test_sparse_checkout_of_the_package_has_the_record_of_each_commit(
    fork: CheckoutTree, patches: PatchSet, mode: str, folder: str
) -> None:
    before = contents(fork)
    git(fork.root, "sparse-checkout", "set", mode, folder)
    for number, name in enumerate(OURS, 1):
        api.commit(fork, patches, (name,))
        assert recorded_in(fork) == [*OURS[:number]]
        assert git(fork.root, "status", "--porcelain") == ""
    require_ours(open_tree(fork.root), patches, before)


def merge_patched_branches(fork: CheckoutTree, patches: PatchSet) -> None:
    """Merge a branch with patch 7 into one with pk-own and 8."""
    git(fork.root, "branch", "other")
    api.commit(fork, patches, ("7",))
    git(fork.root, "checkout", "-q", "other")
    api.commit(fork, patches, ("pk-own", "8"))
    git(fork.root, "merge", "-q", "--no-edit", "-")


def test_branches_with_different_records_are_merged(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path
) -> None:
    before = contents(fork)
    merge_patched_branches(fork, patches)
    for tree in (clone(fork, tmp_path), fork):
        require_ours(tree, patches, before)


def test_patch_that_two_branches_wrote_otherwise_names_its_file(
    fork: CheckoutTree, patches: PatchSet
) -> None:
    before = contents(fork)
    git(fork.root, "branch", "other")
    api.commit(fork, patches, ("8",))
    git(fork.root, "checkout", "-q", "other")
    edit(fork, CRLF, b"class Backend:", b"mine = 1\r\nclass Backend:")
    committed(fork, "Mine")
    mine = contents(fork)
    api.commit(fork, patches, ("8",))
    with pytest.raises(CalledProcessError):
        git(fork.root, "merge", "-q", "--no-edit", "-")
    git(fork.root, "checkout", "-q", "--ours", f"python/sglang/{CRLF}")
    for act in (api.revert, api.apply):
        with pytest.raises(TreeError, match=r"patchkit\.lock/8\.toml has conflict markers: keep one"):
            act(fork, patches)
    git(fork.root, "checkout", "-q", "--ours", LOCK)
    committed(fork, "Merge")
    assert api.revert(fork, patches).patches == ("8",)
    assert contents(fork) == mine != before


def test_write_leaves_the_files_of_other_patches_and_of_a_person(
    series: CheckoutTree, patches: PatchSet
) -> None:
    (series.root / LOCK / "README").write_text("mine")
    (series.root / LOCK / ".8.toml").write_text("mine")
    before = everything(series.root / LOCK)
    api.revert(series, patches, ("8",))
    left = everything(series.root / LOCK)
    assert left == {name: text for name, text in before.items() if name != "8.toml"}
    api.revert(series, patches)
    assert sorted(path.name for path in (series.root / LOCK).iterdir()) == [".8.toml", "README"]


def test_file_that_a_person_renamed_goes_with_its_patch(series: CheckoutTree, patches: PatchSet) -> None:
    (series.root / LOCK / "8.toml").rename(series.root / LOCK / "mine.toml")
    assert states(series, patches) == ["applied"] * 3
    api.revert(series, patches, ("8",))
    assert recorded_in(series) == ["7", "pk-own"]


def test_copy_of_a_file_is_named_with_the_other(series: CheckoutTree, patches: PatchSet) -> None:
    shutil.copy(series.root / LOCK / "8.toml", series.root / LOCK / "copy.toml")
    with pytest.raises(TreeError, match=r"patchkit.lock/copy.toml has the id '8', as 8.toml has: remove"):
        api.revert(series, patches)


def test_without_its_record_code_is_judged_by_its_comments(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path
) -> None:
    before = contents(fork)
    api.commit(fork, patches, OURS)
    git(fork.root, "rm", "-qr", LOCK)
    git(fork.root, "commit", "-qm", "No record")
    there = clone(fork, tmp_path)
    assert states(there, patches) == ["applied"] * 3
    require_ours(there, patches, before)
    tidy(fork)
    assert states(fork, patches) == ["upstream", "upstream", "unknown"]


def test_code_that_git_took_away_leaves_the_record_with_the_next_write(
    fork: CheckoutTree, patches: PatchSet
) -> None:
    before = contents(fork)
    api.apply(fork, patches, ("7", "8"))
    git(fork.root, "checkout", "-q", "--", f"python/sglang/{CRLF}")
    assert states(fork, patches) == ["applied", "pending", "pending"]
    assert recorded_in(fork) == ["7", "8"]
    api.apply(fork, patches, ("pk-own",))
    assert recorded_in(fork) == ["7", "pk-own"]
    assert set(api.revert(fork, patches).patches) == {"7", "pk-own"}
    assert contents(fork) == before
    assert not (fork.root / LOCK).exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("format = 2\n", r"patchkit\.lock/8\.toml is from a newer patchkit \(format 2\): upgrade patchkit"),
        ("what is this\n", r"patchkit\.lock/8\.toml is damaged \(not TOML"),
        ('format = 1\nid = "8"\nkind = "patch"\n', ""),
        ('format = 1\nid = "8"\nkind = "patch"\n[[write]]\nfile = "../../../x"\n', "is damaged"),
    ],
)
def test_record_that_cannot_be_read_stops_what_writes_and_nothing_else(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path, text: str, said: str
) -> None:
    api.commit(fork, patches, OURS)
    (fork.root / LOCK / "8.toml").write_text(text)
    before = everything(tmp_path)
    assert states(fork, patches) == ["applied"] * 3
    assert not api.diff(fork, patches, OURS).changes
    if said:
        for act in (api.revert, api.apply):
            with pytest.raises(TreeError, match=said):
                act(fork, patches)
        assert everything(tmp_path) == before
    else:
        assert set(api.revert(fork, patches).patches) == set(OURS)


@pytest.mark.parametrize("place", [LOCK, f"{LOCK}/7.toml"])
def test_link_in_place_of_the_record_is_not_followed(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path, place: str
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (fork.root / place).parent.mkdir(exist_ok=True)
    (fork.root / place).symlink_to(outside)
    with pytest.raises(TreeError, match="is a link or not a f"):
        api.apply(fork, patches, ("7",))
    assert outside.read_text() == "mine"


def test_record_lies_beside_the_configuration(fork: CheckoutTree, patches: PatchSet) -> None:
    (fork.root / "python" / "patchkit.toml").write_text("")
    committed(fork)
    api.apply(fork, patches, ("7",))
    assert (fork.root / "python" / LOCK / "7.toml").is_file()
    assert not (fork.root / LOCK).exists()
    api.revert(fork, patches)
    assert git(fork.root, "status", "--porcelain") == ""


def test_record_of_a_folder_without_git_lies_with_its_contents(tree: CheckoutTree, patches: PatchSet) -> None:
    before = everything(tree.root)
    api.apply(tree, patches, OURS)
    assert (tree.package / ".patchkit" / LOCK).is_dir()
    tidy(tree)
    assert states(tree, patches) == ["applied"] * 3
    api.revert(tree, patches)
    assert everything(tree.root) == before


def test_what_is_not_committed_stays_recorded_beside_what_is(fork: CheckoutTree, patches: PatchSet) -> None:
    before = contents(fork)
    api.apply(fork, patches, ("8",))
    api.commit(fork, patches, ("7",))
    assert git(fork.root, "ls-files", LOCK).split() == [f"{LOCK}/7.toml"]
    tidy(fork)
    assert states(fork, patches) == ["applied", "applied", "pending"]
    assert set(api.revert(fork, patches).patches) == {"7", "8"}
    assert contents(fork) == before


def test_upstreams_own_edits_of_a_patch_in_part_stay_upstreams(
    fork: CheckoutTree, patch_folder: Path, patches: PatchSet
) -> None:
    both = (rewriting("depth", MIRROR, "depth = 1", "depth = 2"), attribute(CRLF, "Backend", "wide = 1"))
    add_patch(patch_folder, "9", *both, upstream=f'"{PULL}/9"')
    patches = load()
    edit(fork, MIRROR, b"depth = 1", b"depth = 2")
    committed(fork, "Upstream's part")
    before = contents(fork)
    api.apply(fork, patches, ("9",))
    tidy(fork)
    (status,) = (status for status in api.status(fork, patches) if status.patch.id == "9")
    assert status.state.value == "applied"
    assert [edit.state.value for edit in status.edits] == ["upstream", "applied"]
    api.revert(fork, patches)
    assert contents(fork) == before


def test_edit_of_a_colleague_survives_in_a_clone_without_comments(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path
) -> None:
    before = contents(fork)
    api.commit(fork, patches, OURS)
    tidy(fork)
    edit(fork, MIRROR, b"class Mirror:", b"mine = 1\n\n\nclass Mirror:")
    committed(fork, "Mine")
    there = clone(fork, tmp_path)
    api.revert(there, patches)
    mine = (before[MIRROR] or b"").replace(b"class Mirror:", b"mine = 1\n\n\nclass Mirror:")
    assert contents(there) == before | {MIRROR: mine}


def test_patch_that_a_person_undid_by_hand_is_not_said_to_be_applied(
    fork: CheckoutTree, patches: PatchSet
) -> None:
    api.commit(fork, patches, ("8", "pk-own"))
    edit(fork, CRLF, b"    # patchkit 8: toy\r\n    own = 1\r\n\r\n", b"")
    assert states(fork, patches) == ["pending", "pending", "applied"]
    assert api.revert(fork, patches, ("8",)).patches == ()


def write_patch(folder: Path, code: str) -> PatchSet:
    """Write the next form of a patch that calls the runtime."""
    imports = '["from patchkit.runtime import api_1 as patchkit_api"]'
    change = rewriting("call", f"{MIRROR}::Mirror.host", "return $value", f"return patchkit_api.{code}")
    add_patch(folder, "9", change, imports=imports)
    return load()


def test_older_form_of_a_patch_is_replaced_in_one_write(
    fork: CheckoutTree, patch_folder: Path, patches: PatchSet
) -> None:
    before = contents(fork)
    old = write_patch(patch_folder, "totals($value)")
    api.apply(fork, old, ("9", "7"))
    committed(fork)
    edit(fork, CRLF, b"class Backend:", b"mine = 1\r\nclass Backend:")
    new = write_patch(patch_folder, "rows($value)")
    result = api.apply(fork, new, ("pk-own",))
    assert result.files == (MIRROR,)
    text = fork.read(MIRROR) or b""
    assert b"return patchkit_api.rows(self.copies)" in text
    assert b"totals" not in text
    fresh = {file: text for file, text in contents(fork).items() if file != CRLF}
    api.revert(fork, new)
    mine = (before[CRLF] or b"").replace(b"class Backend:", b"mine = 1\r\nclass Backend:")
    assert contents(fork) == before | {CRLF: mine}
    api.apply(fork, new, ("9", "7", "pk-own"), allow_dirty=True)
    assert {file: text for file, text in contents(fork).items() if file != CRLF} == fresh


def test_older_form_without_a_record_is_a_conflict_that_names_the_way(
    fork: CheckoutTree, patch_folder: Path, patches: PatchSet
) -> None:
    api.apply(fork, write_patch(patch_folder, "totals($value)"), ("9",))
    shutil.rmtree(fork.root / LOCK)
    mine = contents(fork)
    new = write_patch(patch_folder, "rows($value)")
    with pytest.raises(ConflictError):
        api.apply(fork, new, ("9",))
    assert contents(fork) == mine
    (status,) = (status for status in api.status(fork, new) if status.patch.id == "9")
    assert "revert it with the version of patchkit that applied it, then apply again" in status.reason


def test_older_form_that_a_person_edited_is_a_conflict(
    fork: CheckoutTree, patch_folder: Path, patches: PatchSet
) -> None:
    api.apply(fork, write_patch(patch_folder, "totals($value)"), ("9",))
    edit(fork, MIRROR, b"totals(self.copies)", b"totals(self.copies, 1)")
    mine = contents(fork)
    with pytest.raises(ConflictError):
        api.apply(fork, write_patch(patch_folder, "rows($value)"), ("9",))
    assert contents(fork) == mine


@pytest.mark.parametrize("is_recorded", [True, False])
def test_edited_insertion_is_not_made_a_second_time(
    fork: CheckoutTree, patch_folder: Path, patches: PatchSet, is_recorded: bool
) -> None:
    guard = statement("insert-before", "guard", f"{MIRROR}::Mirror.host", "return $value", "guard(1)")
    add_patch(patch_folder, "9", guard)
    patches = load()
    api.apply(fork, patches, ("9",))
    edit(fork, MIRROR, b"guard(1)", b"guard(2)")
    if not is_recorded:
        shutil.rmtree(fork.root / LOCK)
    mine = contents(fork)
    (status,) = (status for status in api.status(fork, patches) if status.patch.id == "9")
    assert status.state.value == ("edited" if is_recorded else "conflict")
    with pytest.raises(ConflictError):
        api.apply(fork, patches, ("9",), allow_dirty=True)
    assert contents(fork) == mine


def test_one_patch_of_two_merged_branches_goes_where_another_is_not_loaded(
    fork: CheckoutTree, patches: PatchSet
) -> None:
    before = contents(fork)
    merge_patched_branches(fork, patches)
    few = PatchSet(tuple(patches.get(name) for name in ("7", "8")), "few")
    assert api.revert(fork, few, ("7",)).patches == ("7",)
    assert "8" in recorded_in(fork)
    assert "7" not in recorded_in(fork)
    assert set(api.revert(fork, patches).patches) == {"8", "pk-own"}
    assert contents(fork) == before
