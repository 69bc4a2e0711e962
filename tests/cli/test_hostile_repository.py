"""A repository with crafted tree objects leads no command out of its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.hostile import REFUSED, everything, with_entries
from support.releases import answer, run
from support.toys import MIRROR, git

from patchkit.errors import TreeError
from patchkit.tree.names import is_unsafe
from patchkit.tree.objects import GitRepository, GitTree

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from support.hostile import Entries

    from patchkit.tree.tree import CheckoutTree

HOMES = ["python/sglang/srt", "python/sglang", "python", ""]


@pytest.mark.usefixtures("patch_folder")
@pytest.mark.parametrize("home", HOMES)
def test_matrix_refuses_hostile_refs_in_their_own_cells_and_writes_nothing_outside(
    checkout: CheckoutTree, stolen: Mapping[str, Entries], outside: Path, home: str
) -> None:
    git(checkout.root, "branch", "release/honest")
    for trick in REFUSED:
        git(checkout.root, "branch", f"release/{trick}", with_entries(checkout.root, home, *stolen[trick]))
    before = everything(outside, outside / "remembered")
    for more in ((), ("--verify",)):
        rows = answer("matrix", checkout.root, "--refs", "refs/heads/release/*", *more, code=1)["rows"]
        by_ref = {row["ref"].rpartition("/")[2]: row for row in rows}
        honest = by_ref.pop("honest")
        assert not honest["error"]
        assert honest["patches"]
        assert sorted(by_ref) == sorted(REFUSED)
        assert all("run git fsck there" in row["error"] and not row["patches"] for row in by_ref.values())
    assert everything(outside, outside / "remembered") == before


@pytest.mark.usefixtures("patch_folder")
def test_matrix_refuses_what_only_laying_the_package_out_comes_across(
    checkout: CheckoutTree, stolen: Mapping[str, Entries], outside: Path
) -> None:
    (checkout.package / "kept").mkdir()
    (checkout.package / "kept" / "x.py").write_text("")
    git(checkout.root, "add", "-A")
    git(checkout.root, "commit", "-qm", "kept")
    hostile = with_entries(checkout.root, "python/sglang/kept", *stolen["up"])
    before = everything(outside, outside / "remembered")
    (row,) = answer("matrix", checkout.root, "--refs", hostile, "--verify", code=1)["rows"]
    assert "run git fsck there" in str(row["verified"])
    assert everything(outside, outside / "remembered") == before


@pytest.mark.usefixtures("patch_folder")
def test_a_link_and_a_folder_of_one_name_lead_nowhere(
    checkout: CheckoutTree, stolen: Mapping[str, Entries], outside: Path
) -> None:
    hostile = with_entries(checkout.root, "python/sglang/srt", *stolen["linked"])
    before = everything(outside, outside / "remembered")
    (row,) = answer("matrix", checkout.root, "--refs", hostile, "--verify")["rows"]
    assert row["verified"]["passed"]
    assert everything(outside, outside / "remembered") == before
    assert not list((outside / "outside").iterdir())


@pytest.mark.usefixtures("patch_folder")
@pytest.mark.parametrize("trick", REFUSED)
def test_rebase_export_and_new_refuse_a_hostile_ref(
    checkout: CheckoutTree, stolen: Mapping[str, Entries], outside: Path, trick: str
) -> None:
    hostile = with_entries(checkout.root, "python/sglang/srt", *stolen[trick])
    git(checkout.root, "branch", "hostile", hostile)
    before = everything(outside, outside / "remembered")
    assert "git fsck" in run("rebase", checkout.root, "--onto", "hostile", code=4).stderr
    git(checkout.root, "update-ref", "HEAD", hostile)
    assert "git fsck" in run("export", checkout.root, "-o", outside / "series", code=4).stderr
    git(checkout.root, "update-ref", "HEAD", f"{hostile}^")
    run("new", "mine", "--from-commit", hostile, "-o", outside / "mine", "--on", checkout.root, code=2)
    after = everything(outside, outside / "remembered")
    assert {key: value for key, value in after.items() if ".git/" not in key} == {
        key: value for key, value in before.items() if ".git/" not in key
    }


def test_what_git_refuses_on_any_system_is_refused(checkout: CheckoutTree) -> None:
    blob = git(checkout.root, "rev-parse", f"HEAD:python/sglang/{MIRROR}").strip()
    for name in (
        ".git",
        ".Git",
        ".git ",
        ".git...",
        "git~1",
        "GIT~1. ",
        ".git::$INDEX_ALLOCATION",
        ".g\u200cit",
    ):
        assert is_unsafe(name), name
        hostile = with_entries(checkout.root, "python/sglang/srt", ("100644", name, blob))
        with GitRepository(checkout.root) as repository, pytest.raises(TreeError, match="git fsck"):
            GitTree(repository, hostile).files("")


@pytest.mark.parametrize(
    "name",
    [".gitignore", ".github", "...", "..a", "a..", "git~10", "x.git", "a:b", "E=8,N=1 [1, 2].json", "é"],
)
def test_a_name_that_git_takes_is_taken(name: str) -> None:
    assert not is_unsafe(name)
