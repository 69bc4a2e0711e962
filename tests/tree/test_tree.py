from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from support.toys import ABRUPT, CRLF, MIRROR, SOURCES, git, write_package

from patchkit.errors import TreeError
from patchkit.tree import sglang
from patchkit.tree.objects import GitRepository, GitTree
from patchkit.tree.tree import CheckoutTree, OverlayTree, installed_tree, open_tree


@pytest.fixture
def site_packages(tmp_path: Path) -> Path:
    folder = tmp_path / "lib" / "site-packages"
    write_package(folder / "sglang", {key: value for key, value in SOURCES.items() if key != "version.py"})
    metadata = folder / "sglang-0.5.13.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.4\nName: sglang\nVersion: 0.5.13\n")
    return folder


@pytest.mark.parametrize("named", [".", "python", "python/sglang"])
def test_git_checkout_is_the_same_tree_however_it_is_named(checkout: CheckoutTree, named: str) -> None:
    tree = open_tree(checkout.root / named)
    assert (tree.root, tree.package) == (checkout.root, checkout.root / "python" / "sglang")


@pytest.mark.parametrize("named", [".", "sglang"])
def test_installed_package_has_site_packages_as_its_root(site_packages: Path, named: str) -> None:
    tree = open_tree(site_packages / named)
    assert (tree.root, tree.package) == (site_packages, site_packages / "sglang")


def test_relative_path_is_resolved(tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree.root)
    assert open_tree(Path()) == tree


def test_package_behind_a_link_is_the_package(tree: CheckoutTree, tmp_path: Path) -> None:
    (tmp_path / "sglang").symlink_to(tree.package)
    assert open_tree(tmp_path).package == tree.package


@pytest.mark.parametrize("made", ["", "sglang/srt/x.py", "sglang/__init__.py", "python/other/__init__.py"])
def test_folder_without_the_package_is_refused(tmp_path: Path, made: str) -> None:
    (tmp_path / "top" / made).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "top").mkdir(exist_ok=True)
    if made:
        (tmp_path / "top" / made).write_text("")
    with pytest.raises(TreeError, match="is not an sglang tree"):
        open_tree(tmp_path / "top")


def test_file_and_missing_path_are_refused(tree: CheckoutTree) -> None:
    for path in (tree.package / "version.py", tree.package / "nowhere"):
        with pytest.raises(TreeError, match="is not a folder"):
            open_tree(path)


def test_installed_tree_is_found_and_not_imported(
    site_packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site_packages / "sglang" / "__init__.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.syspath_prepend(site_packages)
    tree = installed_tree()
    assert (tree.package, tree.version) == (site_packages / "sglang", "0.5.13")
    assert "sglang" not in sys.modules


def test_environment_without_sglang_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(TreeError, match="sglang is not installed"):
        installed_tree()


def test_namespace_of_leftover_folders_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sglang" / "srt").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TreeError, match="sglang is not installed"):
        installed_tree()


@pytest.mark.parametrize(
    ("files", "version"),
    [
        (
            {"_version.py": "__version__ = version = '0.5.12.post1'\n", "version.py": '__version__ = "0"\n'},
            "0.5.12.post1",
        ),
        ({"version.py": '__version__ = "0.4.9"\n'}, "0.4.9"),
        ({"version.py": 'try:\n    import x\nexcept ImportError:\n    __version__ = "0.0.0.dev0"\n'}, None),
        ({"../pyproject.toml": '[project]\nname = "sglang"\nversion = "0.4.6"\n'}, "0.4.6"),
        ({"../pyproject.toml": '[project]\nname = "sglang"\ndynamic = ["version"]\n'}, None),
        ({"../pyproject.toml": "not = [toml\n"}, None),
    ],
)
def test_version_is_what_the_tree_states(
    tree: CheckoutTree, files: dict[str, str], version: str | None
) -> None:
    (tree.package / "version.py").unlink()
    for file, text in files.items():
        (tree.package / file).write_text(text)
    assert open_tree(tree.package).version == version


def test_version_of_a_checkout_is_the_release_tag_at_its_head(checkout: CheckoutTree) -> None:
    git(checkout.root, "rm", "-q", "python/sglang/version.py")
    git(checkout.root, "commit", "-qm", "No version file")
    assert open_tree(checkout.root).version is None
    git(checkout.root, "tag", "v0.5.14")
    assert open_tree(checkout.root).version == "0.5.14"
    for number in range(2):
        git(checkout.root, "commit", "-q", "--allow-empty", "-m", f"More {number}")
    commit = git(checkout.root, "rev-parse", "--short", "HEAD").strip()
    assert open_tree(checkout.root).version == f"0.5.14+2.g{commit}"
    with GitRepository(checkout.root) as repository:
        assert GitTree(repository, "HEAD").version == f"0.5.14+2.g{commit}"


def test_a_tag_that_is_no_release_names_no_version(checkout: CheckoutTree) -> None:
    git(checkout.root, "rm", "-q", "python/sglang/version.py")
    git(checkout.root, "commit", "-qm", "No version file")
    git(checkout.root, "tag", "gateway-v0.3")
    assert open_tree(checkout.root).version is None


@pytest.mark.parametrize(
    ("version", "too_old"),
    [
        ("0.5.4", True),
        ("0.5.10.post1", True),
        ("0.5.11", False),
        ("0.5.11rc1", False),
        ("0.6", False),
        ("1.0.0", False),
        ("0.5.10+37.gabcdef", False),
        ("fork", False),
        (None, False),
    ],
)
def test_what_is_older_than_the_oldest_release_supported_is_too_old(
    version: str | None, too_old: bool
) -> None:
    assert sglang.is_too_old(version) is too_old


@pytest.mark.parametrize("file", [MIRROR, CRLF, ABRUPT])
def test_bytes_are_read_as_they_are(tree: CheckoutTree, file: str) -> None:
    assert tree.read(file) == SOURCES[file]


@pytest.mark.parametrize("file", ["srt/none.py", "srt", "version.py/below.py"])
def test_what_is_no_file_reads_as_none(tree: CheckoutTree, file: str) -> None:
    assert tree.read(file) is None


def test_unreadable_file_is_refused(tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path, *_: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(TreeError, match=r"mirror.py cannot be read: Permission denied"):
        tree.read(MIRROR)


def test_files_are_sorted_and_leave_out_hidden_folders(tree: CheckoutTree) -> None:
    write_package(
        tree.package / "srt", {".cache/x.py": b"", "a.py": b"", "notes.md": b"", "managers/.hidden/y.py": b""}
    )
    assert tree.files("srt") == ["srt/a.py", CRLF, MIRROR, ABRUPT]
    assert tree.files("", suffix=".md") == ["srt/notes.md"]
    assert tree.files("srt/none") == []


def test_ref_reads_as_its_checkout_does(checkout: CheckoutTree, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(checkout.root), "bare.git")
    with GitRepository(tmp_path / "bare.git") as repository:
        ref = GitTree(repository, "HEAD")
        assert ref.files("") == checkout.files("")
        assert {file: ref.read(file) for file in ref.files("")} == SOURCES
        assert ref.version == checkout.version == "0.5.12"
        assert ref.read("srt/none.py") is ref.read("srt") is None
        assert ref.package_label.endswith("HEAD:python/sglang")


def test_package_at_the_top_of_a_repository_is_found(tree: CheckoutTree) -> None:
    git(tree.root, "init", "-q")
    git(tree.root, "add", ".")
    git(tree.root, "commit", "-qm", "Only the package")
    with GitRepository(tree.root) as repository:
        assert GitTree(repository, "HEAD").read(ABRUPT) == SOURCES[ABRUPT]


def test_older_ref_has_its_own_bytes(checkout: CheckoutTree) -> None:
    (checkout.package / MIRROR).write_bytes(b"x = 1\n")
    git(checkout.root, "commit", "-qam", "Change")
    git(checkout.root, "tag", "v9.9.9")
    with GitRepository(checkout.root) as repository:
        assert GitTree(repository, "HEAD~1").read(MIRROR) == SOURCES[MIRROR]
        assert GitTree(repository, "v9.9.9").read(MIRROR) == b"x = 1\n"


def test_link_inside_the_package_is_followed_in_a_ref(checkout: CheckoutTree) -> None:
    links = {"srt/same.py": "managers/mirror.py", "srt/loop.py": "loop.py", "srt/out.py": "../../../x.py"}
    for name, target in links.items():
        (checkout.package / name).symlink_to(target)
    git(checkout.root, "add", ".")
    git(checkout.root, "commit", "-qm", "Links")
    with GitRepository(checkout.root) as repository:
        tree = GitTree(repository, "HEAD")
        assert tree.read("srt/same.py") == SOURCES[MIRROR]
        assert tree.read("srt/loop.py") is tree.read("srt/out.py") is None


def test_version_of_a_ref_is_its_tag(checkout: CheckoutTree) -> None:
    git(checkout.root, "rm", "-q", "python/sglang/version.py")
    git(checkout.root, "commit", "-qm", "No version file")
    git(checkout.root, "tag", "v0.5.11")
    with GitRepository(checkout.root) as repository:
        assert GitTree(repository, "v0.5.11").version == "0.5.11"


@pytest.mark.parametrize("ref", ["no-such-ref", "HEAD\nHEAD", "HEAD:python"])
def test_what_is_no_commit_is_refused(checkout: CheckoutTree, ref: str) -> None:
    with GitRepository(checkout.root) as repository, pytest.raises(TreeError):
        GitTree(repository, ref)


def test_ref_without_the_package_is_refused(checkout: CheckoutTree) -> None:
    git(checkout.root, "rm", "-qr", "python/sglang/srt")
    git(checkout.root, "commit", "-qm", "Gone")
    with GitRepository(checkout.root) as repository, pytest.raises(TreeError, match="is not an sglang tree"):
        GitTree(repository, "HEAD")


def test_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TreeError, match="is not a git repository"):
        GitRepository(tmp_path)


def test_missing_git_is_named(tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(TreeError, match="install git"):
        GitRepository(tree.root)


def test_repository_of_a_running_hook_is_not_taken_for_the_named_one(
    checkout: CheckoutTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    with GitRepository(checkout.root) as repository:
        assert GitTree(repository, "HEAD").read(MIRROR) == SOURCES[MIRROR]


def test_overlay_changes_only_what_it_holds(tree: CheckoutTree) -> None:
    overlay = OverlayTree(tree, {MIRROR: b"x = 1\n", "srt/new.py": b""})
    assert overlay.read(MIRROR) == b"x = 1\n"
    assert overlay.read(ABRUPT) == SOURCES[ABRUPT]
    assert overlay.files("srt") == [CRLF, MIRROR, "srt/new.py", ABRUPT]
    assert overlay.files("srt/speculative") == [ABRUPT]
    assert (overlay.version, overlay.package_label) == (tree.version, tree.package_label)


def test_a_bare_repository_has_no_files_and_the_error_names_matrix(
    checkout: CheckoutTree, tmp_path: Path
) -> None:
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(checkout.root), str(bare))
    with pytest.raises(TreeError, match=rf"patchkit matrix {re.escape(str(bare))} --refs HEAD"):
        open_tree(bare)
