"""What is laid out stays in the folder that it is laid out in, whatever is there and whatever the paths say."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from support.hostile import REFUSED, everything, with_entries
from support.toys import MIRROR, SOURCES, git

from patchkit.errors import TreeError
from patchkit.transaction.extract import extract
from patchkit.transaction.folder import Folder
from patchkit.tree.objects import GitRepository, GitTree

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from support.hostile import Entries

    from patchkit.tree.tree import CheckoutTree


def test_a_tree_in_git_is_laid_out_whole_and_a_link_as_what_it_leads_to(
    checkout: CheckoutTree, tmp_path: Path
) -> None:
    (checkout.package / "link.py").symlink_to(MIRROR)
    (checkout.package / "gone.py").symlink_to("../../../outside.py")
    git(checkout.root, "add", "-A")
    git(checkout.root, "commit", "-qm", "links")
    with GitRepository(checkout.root) as repository:
        extract(GitTree(repository, "HEAD"), tmp_path / "new" / "sglang")
        with pytest.raises(TreeError, match=r"cannot be written to .*File exists"):
            extract(GitTree(repository, "HEAD"), tmp_path / "new" / "sglang")
    laid = everything(tmp_path / "new" / "sglang")
    files = {str(tmp_path / "new" / "sglang" / name): content for name, content in SOURCES.items()}
    files[str(tmp_path / "new" / "sglang" / "link.py")] = SOURCES[MIRROR]
    assert {name: content for name, content in laid.items() if content is not None} == files


@pytest.mark.parametrize("file", ["../x.py", "a/../../x.py", "/x.py", "a//x.py", "./x.py", ".git/x.py", "a/"])
def test_a_path_that_leads_out_of_a_folder_is_not_written(tmp_path: Path, file: str) -> None:
    (tmp_path / "home" / "a").mkdir(parents=True)
    before = everything(tmp_path)
    with Folder.open(tmp_path / "home") as folder, pytest.raises(TreeError, match="not a valid path"):
        folder.write_new_file(file, b"")
    assert everything(tmp_path) == before


@pytest.mark.parametrize("file", ["through/x.py", "through", "through/deep/x.py"])
def test_a_link_in_the_way_is_not_followed(tmp_path: Path, file: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "home" / "through").symlink_to(tmp_path / "outside")
    before = everything(tmp_path)
    with Folder.open(tmp_path / "home") as folder, pytest.raises(OSError, match=r"link|exists"):
        folder.write_new_file(file, b"")
    assert everything(tmp_path) == before


@pytest.mark.parametrize("trick", REFUSED)
def test_a_hostile_tree_is_not_laid_out_elsewhere_even_if_it_was_read(
    checkout: CheckoutTree,
    stolen: Mapping[str, Entries],
    tmp_path: Path,
    trick: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hostile = with_entries(checkout.root, "python/sglang/srt", *stolen[trick])
    monkeypatch.setattr("patchkit.tree.objects.is_unsafe", lambda _name: False)
    before = everything(tmp_path)
    home = tmp_path / "home" / "sglang"
    with GitRepository(checkout.root) as repository, suppress(TreeError):
        extract(GitTree(repository, hostile), home)
    assert everything(tmp_path, home.parent) == before
