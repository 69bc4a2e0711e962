"""The configuration of a copy of sglang inside a bigger repository is the nearest one, on disk and in every ref."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from support.releases import answer, run, states_in
from support.repositories import committing
from support.toys import ABRUPT, add_patch, attribute, git, write_package

from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("patch_folder")

COPY = "third_party/serving"
PACKAGE = f"{COPY}/sglang"
LEFT_OUT = "left_out = ['t-guard']\n"
TABLE = f"[tool.patchkit]\n{LEFT_OUT}"
NONE_LEFT_OUT: dict[str, str] = {}


def repository(top: Path, package: str = PACKAGE) -> Path:
    """Make a repository with a copy of the package, all committed, and return its top."""
    place = write_package(top / package)
    git(top, "init", "-q")
    commit(top)
    committing(open_tree(place))
    return top


def commit(top: Path) -> None:
    git(top, "add", ".")
    git(top, "commit", "-qm", "Change")


def configure(top: Path, text: str, name: str = "patchkit.toml") -> Path:
    (top / name).write_text(text)
    commit(top)
    return top / name


def left_out(reply: Any) -> dict[str, str]:
    return {each["id"]: each["left_out"] for each in reply["patches"] if "left_out" in each}


def left_out_at(where: Path, ref: str = "HEAD") -> dict[str, str]:
    (row,) = answer("matrix", where, "--refs", ref)["rows"]
    return {cell["patch"]: cell["left_out"] for cell in row["patches"] if cell["left_out"]}


def left_out_everywhere(where: Path) -> dict[str, str]:
    """Return what is left out on disk, which must be what is left out at HEAD."""
    found = left_out(answer("status", where))
    assert left_out_at(where) == found
    return found


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return repository(tmp_path / "product")


@pytest.mark.parametrize("folder", ["", "third_party/", f"{COPY}/", f"{PACKAGE}/"])
@pytest.mark.parametrize(
    ("file", "text"), [("patchkit.toml", LEFT_OUT), ("pyproject.toml", TABLE)], ids=["own", "project"]
)
def test_status_and_matrix_read_a_file_in_any_folder_from_the_package_to_the_top(
    top: Path, folder: str, file: str, text: str
) -> None:
    configure(top, text, folder + file)
    label = file if file == "patchkit.toml" else f"{file} [tool.patchkit]"
    assert left_out_everywhere(top / COPY) == {"t-guard": f"in `left_out` of {label}"}
    assert "t-guard" not in states_in(answer("apply", top / COPY))


@pytest.mark.parametrize("folder", ["", f"{COPY}/"])
def test_an_unknown_key_is_an_error_on_disk_and_of_the_ref(top: Path, folder: str) -> None:
    path = configure(top, "bogus = 1\n", f"{folder}patchkit.toml")
    for command in ("status", "apply"):
        assert f"unknown key `bogus`\n  --> {path}\n" in run(command, top / COPY, code=2).stderr
    (row,) = json.loads(run("matrix", top / COPY, "--refs", "HEAD", "--json", code=1).stdout)["rows"]
    assert "unknown key `bogus`" in row["error"]


def test_commits_of_a_copy_have_the_prefix_and_not_the_patches_that_the_top_leaves_out(top: Path) -> None:
    configure(top, f'{LEFT_OUT}subject_prefix = "backport: "\n')
    run("apply", top / COPY, "--commit")
    subjects = git(top, "log", "--format=%s", "-3").splitlines()
    assert sorted(subjects) == ["Change", "backport: Toy t-flag", "backport: Toy t-stop"]


def test_paths_are_relative_to_the_folder_of_the_configuration(top: Path) -> None:
    for folder, value in (("ours", 1), (f"{COPY}/ours", 2)):
        add_patch(top / folder, "acme", attribute(ABRUPT, "Worker", f"acme = {value}"))
    (top / "known.json").write_text('{"findings": []}')
    configure(top, 'patches = ["ours"]\nbaseline = "known.json"\n')
    assert "+    acme = 1" in run("diff", top / COPY, "acme").stdout
    assert "acme" in answer("matrix", top / COPY, "--refs", "HEAD")["patches"]
    assert "acme" in [each["id"] for each in answer("rebase", top / COPY, "--onto", "HEAD")["patches"]]
    run("audit", top / COPY)
    configure(top, 'patches = ["ours"]\n', f"{COPY}/patchkit.toml")
    assert "+    acme = 2" in run("diff", top / COPY, "acme").stdout
    configure(top, 'patches = ["../../ours"]\n', f"{COPY}/patchkit.toml")
    assert "'../../ours' does not lead to a place inside" in run("status", top / COPY, code=2).stderr


def test_the_nearest_of_two_configurations_is_the_only_one(top: Path) -> None:
    configure(top, 'left_out = ["t-flag"]\n')
    configure(top, LEFT_OUT, f"{COPY}/patchkit.toml")
    assert left_out_everywhere(top / COPY) == {"t-guard": "in `left_out` of patchkit.toml"}
    configure(top, "[tool.ruff]\n", f"{COPY}/pyproject.toml")
    (top / COPY / "patchkit.toml").unlink()
    commit(top)
    assert set(left_out_everywhere(top / COPY)) == {"t-flag", "t-stop"}


@pytest.mark.parametrize("folder", ["", f"{COPY}/"])
def test_two_configurations_in_one_folder_are_an_error(top: Path, folder: str) -> None:
    own = configure(top, LEFT_OUT, f"{folder}patchkit.toml")
    project = configure(top, TABLE, f"{folder}pyproject.toml")
    message = f"{own} and {project} [tool.patchkit] both configure patchkit"
    assert message in run("status", top / COPY, code=2).stderr
    assert "both configure patchkit" in run("matrix", top / COPY, "--refs", "HEAD", code=1).stdout


@pytest.mark.parametrize("copy", ["", "third_party/vendor/"], ids=["at the top", "deep"])
def test_the_folder_python_is_at_the_level_of_its_checkout(tmp_path: Path, copy: str) -> None:
    top = repository(tmp_path / "fork", f"{copy}python/sglang")
    add_patch(top / copy / "ours", "acme", attribute(ABRUPT, "Worker", "acme = 1"))
    configure(top, f'[tool.patchkit]\npatches = ["ours"]\n{LEFT_OUT}', f"{copy}python/pyproject.toml")
    where = top / copy
    assert set(left_out_everywhere(where)) == {"t-guard"}
    assert "acme" in states_in(answer("status", where))
    configure(top, LEFT_OUT, f"{copy}patchkit.toml")
    assert "both configure patchkit" in run("status", where, code=2).stderr
    assert "both configure patchkit" in run("matrix", where, "--refs", "HEAD", code=1).stdout


def test_a_submodules_repository_is_the_limit(top: Path, tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner", "sglang")
    git(top, "rm", "-rq", PACKAGE)
    protocol = ("-c", "protocol.file.allow=always")
    git(top, *protocol, "submodule", "--quiet", "add", "--force", str(inner), COPY)
    configure(top, "bogus = 1\n")
    assert (top / COPY / ".git").is_file()
    assert left_out_everywhere(top / COPY) == NONE_LEFT_OUT
    (top / COPY / "patchkit.toml").write_text(LEFT_OUT)
    commit(top / COPY)
    assert set(left_out_everywhere(top / COPY)) == {"t-guard"}


def test_a_package_that_is_a_repository_is_configured_in_its_own_folder(tmp_path: Path) -> None:
    package = write_package(tmp_path / "sglang")
    (tmp_path / "patchkit.toml").write_text("bogus = 1\n")
    git(package, "init", "-q")
    configure(package, LEFT_OUT)
    assert set(left_out_everywhere(package)) == {"t-guard"}


def test_nothing_above_the_top_is_read_nor_above_a_tree_outside_git(top: Path, tmp_path: Path) -> None:
    (tmp_path / "patchkit.toml").write_text("bogus = 1\n")
    assert left_out_everywhere(top / COPY) == NONE_LEFT_OUT
    shutil.rmtree(top / ".git")
    (top / "patchkit.toml").write_text("bogus = 1\n")
    assert left_out(answer("status", top / COPY)) == NONE_LEFT_OUT
    (top / COPY / "patchkit.toml").write_text(LEFT_OUT)
    assert set(left_out(answer("status", top / COPY))) == {"t-guard"}


def test_a_folder_that_only_looks_like_a_repository_is_no_limit(top: Path) -> None:
    configure(top, LEFT_OUT)
    (top / "third_party/.git").mkdir()
    assert set(left_out_everywhere(top / COPY)) == {"t-guard"}


def test_worktrees_clones_and_bare_repositories_answer_the_same(top: Path, tmp_path: Path) -> None:
    configure(top, LEFT_OUT)
    git(top, "worktree", "add", "-q", "--detach", str(tmp_path / "worktree"))
    git(tmp_path, "clone", "-q", str(top), "clone")
    for folder in ("worktree", "clone"):
        assert set(left_out_everywhere(tmp_path / folder / COPY)) == {"t-guard"}
    fork = repository(tmp_path / "fork", "sglang")
    configure(fork, LEFT_OUT)
    git(tmp_path, "clone", "-q", "--bare", str(fork), "bare")
    assert set(left_out_at(tmp_path / "bare")) == {"t-guard"}
    git(tmp_path / "bare", "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    assert set(left_out_everywhere(tmp_path / "linked")) == {"t-guard"}


def test_refs_with_the_package_in_different_folders_have_their_own_configuration(top: Path) -> None:
    configure(top, LEFT_OUT, "third_party/patchkit.toml")
    git(top, "branch", "before")
    git(top, "mv", PACKAGE, "sglang")
    git(top, "commit", "-qm", "Move")
    git(top, "branch", "after")
    where = top / "third_party"
    rows = {row["ref"]: row for row in answer("matrix", where / "serving", "--refs", "before")["rows"]}
    assert any(cell["left_out"] for cell in rows["refs/heads/before"]["patches"])
    assert left_out_at(where, "after") == NONE_LEFT_OUT


def test_the_configuration_of_a_repository_of_another_user_is_not_read(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (top / "patchkit.toml").write_text("bogus = 1\n")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert "dubious ownership" in run("status", top / COPY, code=4).stderr


def test_an_environment_inside_a_repository_is_no_part_of_it(tmp_path: Path) -> None:
    place = "venv/lib/python3.11/site-packages"
    top = repository(tmp_path / "product", f"{place}/sglang")
    configure(top, "bogus = 1\n")
    assert left_out_everywhere(top / place) == NONE_LEFT_OUT
    configure(top, LEFT_OUT, f"{place}/patchkit.toml")
    assert set(left_out_everywhere(top / place)) == {"t-guard"}


def test_a_link_at_the_top_is_not_followed(top: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.toml").write_text(LEFT_OUT)
    (top / "patchkit.toml").symlink_to(tmp_path / "elsewhere.toml")
    commit(top)
    message = f"{top / 'patchkit.toml'} is not a regular file"
    assert message in run("status", top / COPY, code=2).stderr
    assert "is not a regular file" in run("matrix", top / COPY, "--refs", "HEAD", code=1).stdout
    (top / "patchkit.toml").unlink()
    add_patch(tmp_path / "theirs", "evil", attribute(ABRUPT, "Worker", "evil = 1"))
    (top / "linked").symlink_to(tmp_path / "theirs")
    configure(top, 'patches = ["linked"]\n')
    assert "'linked' is not a folder of the repository (links" in run("status", top / COPY, code=2).stderr
