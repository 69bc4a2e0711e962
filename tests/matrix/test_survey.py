from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from support.toys import ABRUPT, CRLF, MIRROR, add_patch, attribute, git

from patchkit import api
from patchkit.errors import TreeError, UsageError
from patchkit.matrix.tasks import CONFLICTS, DIFFS, VERIFY
from patchkit.patchset import load
from patchkit.tree.objects import GitRepository, GitTree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.matrix.answer import Matrix
    from patchkit.matrix.survey import SurveyResult
    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")


def commit(tree: CheckoutTree, branch: str, changes: dict[str, str | None]) -> str:
    """Commit changes to a branch that starts at the first commit; None deletes a file."""
    if git(tree.root, "branch", "--list", branch).strip():
        git(tree.root, "checkout", "-q", branch)
    else:
        git(tree.root, "checkout", "-q", "-b", branch, "start")
    for file, text in changes.items():
        path = tree.package / file
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    git(tree.root, "add", "-A")
    git(tree.root, "commit", "-q", "--allow-empty", "-m", branch)
    return git(tree.root, "rev-parse", "HEAD").strip()


@pytest.fixture
def fork(checkout: CheckoutTree) -> CheckoutTree:
    """A fork whose first commit is tagged and whose branch release/1 is as that is."""
    git(checkout.root, "tag", "-a", "start", "-m", "The beginning")
    commit(checkout, "release/1", {})
    return checkout


def surveyed(fork: CheckoutTree, *patterns: str, jobs: int = 1) -> Matrix:
    result = api.matrix(fork.root, patterns or ("refs/heads/release/*",), load.patches(), jobs=jobs)
    return result.matrix


def states(matrix: Matrix) -> dict[str, list[str]]:
    return {row.ref.removeprefix("refs/heads/"): [cell.state for cell in row.patches] for row in matrix.rows}


def test_each_cell_is_what_status_says_of_a_checkout(fork: CheckoutTree) -> None:
    mirror = (fork.package / MIRROR).read_text()
    commit(fork, "release/2", {MIRROR: mirror.replace("copies = 0", "needs_host = False\n    copies = 0")})
    commit(fork, "release/3", {MIRROR: mirror.replace("Mirror", "Other")})
    commit(fork, "release/4", {ABRUPT: None})
    matrix = surveyed(fork)
    for row in matrix.rows:
        git(fork.root, "checkout", "-q", row.ref)
        statuses = {s.patch.id: (s.state.value, s.reason) for s in api.status(fork, load.patches())}
        assert {cell.patch: (cell.state, cell.reason) for cell in row.patches} == statuses
    assert len({tuple(state) for state in states(matrix).values()}) == 4


def test_refs_that_share_what_patches_read_are_examined_once(fork: CheckoutTree) -> None:
    for number in range(2, 8):
        commit(fork, f"release/{number}", {"srt/other.py": f"x = {number}\n", "docs.md": str(number)})
    matrix = surveyed(fork)
    assert (len(matrix.rows), matrix.states, matrix.examined) == (7, 1, 1)


def test_a_second_run_examines_nothing_and_a_further_known_ref_neither(fork: CheckoutTree) -> None:
    first = surveyed(fork)
    commit(fork, "release/2", {"srt/other.py": "x = 2\n"})
    again = surveyed(fork)
    assert (first.examined, again.examined) == (1, 0)
    assert states(again)["release/2"] == states(first)["release/1"]


def test_what_a_person_interrupts_goes_on_where_it_stopped(fork: CheckoutTree) -> None:
    for number in range(2, 5):
        commit(fork, f"release/{number}", {MIRROR: f"class Mirror:\n    copies = {number}\n"})

    def interrupted(_what: str, done: int, _of: int) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        api.matrix(fork.root, ("refs/heads/release/*",), load.patches(), jobs=1, watch=interrupted)
    assert surveyed(fork).examined == 2


def test_a_class_that_moved_to_a_file_that_no_patch_names_is_found(fork: CheckoutTree) -> None:
    mirror = (fork.package / MIRROR).read_text()
    commit(fork, "release/2", {MIRROR: "y = 1\n"})
    commit(fork, "release/3", {MIRROR: "y = 1\n", "srt/moved.py": mirror})
    found = states(surveyed(fork))
    assert found["release/2"] != found["release/3"] == found["release/1"]
    commit(fork, "release/4", {MIRROR: "y = 1\n", "srt/moved.py": mirror, "srt/twice.py": mirror})
    assert states(surveyed(fork))["release/4"] == found["release/2"], "two places are one too many"


def test_a_ref_with_a_broken_file_says_so_and_the_others_go_on(fork: CheckoutTree) -> None:
    commit(fork, "release/2", {MIRROR: "class Mirror(:\n"})
    commit(fork, "release/3", {CRLF: None})
    matrix = surveyed(fork)
    errors = {row.ref.rpartition("/")[2]: row.error for row in matrix.rows}
    assert "not valid Python" in errors["2"]
    assert (errors["1"], errors["3"]) == ("", "")
    assert all(row.patches or row.error for row in matrix.rows)


def test_a_ref_without_sglang_says_so(fork: CheckoutTree) -> None:
    git(fork.root, "checkout", "-q", "--orphan", "release/0")
    git(fork.root, "rm", "-rqf", ".")
    git(fork.root, "commit", "-q", "--allow-empty", "-m", "Pages")
    rows = {row.ref.rpartition("/")[2]: row for row in surveyed(fork).rows}
    assert "is not an sglang tree" in rows["0"].error
    assert rows["1"].patches


def test_a_package_that_is_a_submodule_is_no_tree(fork: CheckoutTree) -> None:
    git(fork.root, "checkout", "-q", "--orphan", "release/0")
    git(fork.root, "rm", "-rqf", ".")
    gitlink = f"160000,{git(fork.root, 'rev-parse', 'release/1').strip()},python/sglang"
    git(fork.root, "update-index", "--add", "--cacheinfo", gitlink)
    git(fork.root, "commit", "-q", "-m", "By reference")
    (row,) = surveyed(fork, "release/0").rows
    assert "is not an sglang tree" in row.error


@pytest.mark.parametrize("shape", ["bare", "shallow", "worktree", "detached", "sparse", "unmerged"])
def test_every_kind_of_repository_is_read(fork: CheckoutTree, tmp_path: Path, shape: str) -> None:
    commit(fork, "release/2", {MIRROR: "class Mirror:\n    copies = 1\n"})
    place = tmp_path / "other"
    if shape == "bare":
        git(tmp_path, "clone", "-q", "--bare", str(fork.root), "other")
    elif shape == "shallow":
        git(
            tmp_path,
            "clone",
            "-q",
            "--no-single-branch",
            "--depth=1",
            "--bare",
            f"file://{fork.root}",
            "other",
        )
    elif shape == "worktree":
        git(fork.root, "worktree", "add", "-q", str(place), "release/1")
    else:
        place = fork.root
        if shape == "detached":
            git(place, "checkout", "-q", "--detach")
        elif shape == "sparse":
            git(place, "sparse-checkout", "set", "docs")
        else:
            (fork.package / MIRROR).write_text("<<<<<<< ours\n")
    expected = states(surveyed(fork))
    matrix = api.matrix(place, ("release/*",), load.patches(), jobs=1).matrix
    assert states(matrix) == expected


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("refs/heads/release/*", ["refs/heads/release/1", "refs/heads/release/2"]),
        ("release/*", ["refs/heads/release/1", "refs/heads/release/2"]),
        ("release/2", ["refs/heads/release/2"]),
        ("start", ["refs/tags/start"]),
        ("release/2~0", ["release/2~0"]),
    ],
)
def test_patterns_are_refs_or_revisions(fork: CheckoutTree, pattern: str, names: list[str]) -> None:
    commit(fork, "release/2", {"srt/other.py": "x = 2\n"})
    assert [row.ref for row in surveyed(fork, pattern).rows] == names


def test_a_star_that_leaves_names_with_a_slash_out_says_so(fork: CheckoutTree) -> None:
    git(fork.root, "branch", "plain")
    result = api.matrix(fork.root, ("refs/heads/p*", "refs/heads/*", "refs/heads/**"), load.patches(), jobs=1)
    (note,) = result.notes
    assert "refs/heads/release/1" in note
    assert " 0 more" not in note
    assert "--refs 'refs/heads/**'" in note
    with pytest.raises(UsageError, match=r"matches nothing.*--refs 'refs/heads/r\*/\*\*'"):
        surveyed(fork, "refs/heads/r*")


def test_a_range_is_its_commits_oldest_first(fork: CheckoutTree) -> None:
    made = [commit(fork, "release/1", {"srt/other.py": f"x = {n}\n"}) for n in range(3)]
    assert [row.commit for row in surveyed(fork, "start..release/1").rows][1:] == made


@pytest.mark.parametrize("pattern", ["release/9", "nowhere..start", "--all", "refs/heads/nothing/*", ""])
def test_a_pattern_that_names_nothing_is_refused(fork: CheckoutTree, pattern: str) -> None:
    with pytest.raises(UsageError, match="matches nothing"):
        surveyed(fork, "release/1", pattern)


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TreeError, match="not a git repository"):
        api.matrix(tmp_path, ("main",), load.patches())


def test_a_changed_patch_set_starts_afresh(fork: CheckoutTree, patch_folder: Path) -> None:
    assert surveyed(fork).examined == 1
    add_patch(patch_folder, "t-more", attribute(MIRROR, "Mirror", "more = 1"))
    assert surveyed(fork).examined == 1
    assert surveyed(fork).examined == 0


def test_two_processes_give_the_answer_of_one(
    fork: CheckoutTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2, 6):
        commit(fork, f"release/{number}", {MIRROR: f"class Mirror:\n    copies = {number}\n"})
    one = surveyed(fork, jobs=1)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _name: str(tmp_path / "empty"))
    two = surveyed(fork, "release/*", jobs=2)
    assert states(one) == states(two)
    assert one.examined == two.examined == 5


def test_without_semaphores_for_worker_processes_one_process_says_the_same(
    fork: CheckoutTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    for number in range(2, 4):
        commit(fork, f"release/{number}", {MIRROR: f"class Mirror:\n    copies = {number}\n"})
    with monkeypatch.context() as patched:
        patched.setattr("multiprocessing.synchronize._multiprocessing.SemLock", refuse)
        alone = api.matrix(fork.root, ("release/*",), load.patches(), tasks=[VERIFY], jobs=2)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _name: str(tmp_path / "empty"))
    workers = api.matrix(fork.root, ("release/*",), load.patches(), tasks=[VERIFY], jobs=2)
    assert states(alone.matrix) == states(workers.matrix)
    assert [row.verified for row in alone.matrix.rows] == [row.verified for row in workers.matrix.rows]
    assert alone.matrix.examined == workers.matrix.examined == 3


def test_nothing_is_written_to_the_repository(fork: CheckoutTree) -> None:
    def everything() -> Sequence[tuple[str, int]]:
        return sorted((str(path), path.stat().st_mtime_ns) for path in fork.root.rglob("*"))

    before = everything()
    surveyed(fork)
    assert everything() == before


def test_verifying_applies_and_verifies_a_copy(fork: CheckoutTree) -> None:
    matrix = api.matrix(fork.root, ("release/1",), load.patches(), tasks=[VERIFY], jobs=1).matrix
    (row,) = matrix.rows
    assert row.verified is not None
    again = api.matrix(fork.root, ("release/1",), load.patches(), tasks=[VERIFY], jobs=1).matrix
    assert again.rows == matrix.rows
    assert {cell.state for cell in row.patches} == {"pending"}, "the ref itself is as it was"


def described(fork: CheckoutTree) -> SurveyResult:
    return api.matrix(fork.root, ("refs/heads/release/*",), load.patches(), tasks=[DIFFS, CONFLICTS], jobs=1)


def test_a_task_is_asked_of_each_state_that_concerns_it_and_remembered(fork: CheckoutTree) -> None:
    commit(fork, "release/2", {MIRROR: "class Other:\n    copies = 0\n", ABRUPT: None, CRLF: None})
    one, two = (row.state for row in surveyed(fork).rows)
    for _ in range(2):
        result = described(fork)
        assert set(result.results(DIFFS)) == {one}
        assert set(result.results(CONFLICTS)) == {two}
        assert any("needs_host = False" in diff.text for diff in result.results(DIFFS)[one])
        assert not result.failures(DIFFS)


def test_what_a_task_cannot_tell_is_a_failure_and_is_asked_again(
    fork: CheckoutTree, patch_folder: Path
) -> None:
    add_patch(patch_folder, "t-more", attribute(MIRROR, "Mirror", "more = (yield)"))
    for _ in range(2):
        result = described(fork)
        ((state, reason),) = result.failures(DIFFS).items()
        assert state == result.matrix.rows[0].state
        assert reason.startswith(f"{MIRROR}:")
        assert "would leave this line invalid" in reason


def test_links_are_followed_inside_the_package(fork: CheckoutTree) -> None:
    git(fork.root, "checkout", "-q", "-b", "release/2", "start")
    (fork.package / MIRROR).rename(fork.package / "srt/real.py")
    (fork.package / MIRROR).symlink_to("../real.py")
    git(fork.root, "add", "-A")
    git(fork.root, "commit", "-qm", "A link")
    with GitRepository(fork.root) as repository:
        tree = GitTree(repository, "release/2")
        assert tree.read(MIRROR) == tree.read("srt/real.py") != None  # noqa: E711
        assert MIRROR in tree.files("srt")


def test_a_ref_that_is_too_old_says_so_whatever_is_known_of_the_same_files(fork: CheckoutTree) -> None:
    commit(fork, "release/0", {"version.py": '__version__ = "0.5.10.post1"\n'})
    reason = "sglang 0.5.10.post1 is too old: patches fit 0.5.11 and later"
    for _ in range(2):
        matrix = surveyed(fork)
        old, new = matrix.rows
        assert {(cell.state, cell.reason) for cell in old.patches} == {("not-applicable", reason)}
        assert "not-applicable" not in {cell.state for cell in new.patches}
