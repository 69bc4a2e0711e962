"""Repositories with tree objects that no git wrote, and what a command left outside of them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from support.toys import git

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

Entries = list[tuple[str, str, str]]
"""Mode, name and id, as a tree object has them."""


def tree_object(root: Path, entries: Entries) -> str:
    """Write a tree object as it is said, with names that git itself would not write, and return its id."""
    raw = b"".join(
        b"%s %s\0%s" % (mode.encode(), name.encode(), bytes.fromhex(identifier))
        for mode, name, identifier in entries
    )
    words = ["git", "-C", str(root), "hash-object", "-t", "tree", "-w", "--stdin", "--literally"]
    return subprocess.run(words, input=raw, capture_output=True, check=True).stdout.decode().strip()


def listed(root: Path, tree: str) -> Entries:
    lines = git(root, "ls-tree", tree).splitlines()
    return [(mode.lstrip("0"), name, identifier) for mode, _, identifier, name in (_cells(x) for x in lines)]


def _cells(line: str) -> tuple[str, str, str, str]:
    meta, _, name = line.partition("\t")
    mode, kind, identifier = meta.split()
    return mode, kind, identifier, name


def with_entries(root: Path, folder: str, *more: tuple[str, str, str]) -> str:
    """Commit HEAD's tree with further entries in one of its folders; return the commit."""
    tree = tree_object(root, [*listed(root, f"HEAD:{folder}"), *more])
    while folder:
        folder, _, name = folder.rpartition("/")
        above = listed(root, f"HEAD:{folder}" if folder else "HEAD^{tree}")
        tree = tree_object(root, [each for each in above if each[1] != name] + [("40000", name, tree)])
    return git(root, "commit-tree", tree, "-p", "HEAD", "-m", "hostile").strip()


@pytest.fixture
def stolen(checkout: CheckoutTree, tmp_path: Path) -> Mapping[str, Entries]:
    """What a hostile repository may put into a folder, each under the name of the trick."""
    root = checkout.root
    code = tmp_path / "code"
    code.write_text("stolen = True\n")
    blob = git(root, "hash-object", "-w", str(code)).strip()
    code.write_text(str(tmp_path / "outside"))
    link = git(root, "hash-object", "-w", str(code)).strip()
    code.unlink()

    def folder(*entries: tuple[str, str, str]) -> str:
        return tree_object(root, list(entries))

    file = ("100644", "stolen.py", blob)
    up = ("40000", "..", folder(("40000", "..", folder(file)), file))
    escaping = [("100644", f"{'../' * depth}stolen.py", blob) for depth in range(1, 6)]
    return {
        "up": [up, *escaping],
        "slash": [("100644", "srt/stolen.py", blob)],
        "absolute": [("100644", str(tmp_path / "stolen.py"), blob)],
        "here": [("40000", ".", folder(file))],
        "git": [("40000", ".GIT", folder(("100755", "hooks.py", blob)))],
        "nothing": [("100644", "", blob)],
        "backslash": [("100644", "..\\stolen.py", blob)],
        "linked": [("120000", "through", link), ("40000", "through", folder(file))],
    }


REFUSED = ["up", "slash", "absolute", "here", "git", "nothing", "backslash"]


def everything(folder: Path, *but: Path) -> dict[str, bytes | None]:
    """Return every path below a folder with its bytes, but for some folders."""
    return {
        str(path): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in folder.rglob("*")
        if not any(path.is_relative_to(each) for each in but)
    }


@pytest.fixture
def outside(tmp_path: Path, checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of which commands may use one for temporary files and one for what they remember."""
    place = tmp_path / "a" / "b" / "scratch"
    place.mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(place))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "remembered"))
    (tmp_path / "outside").mkdir()
    del checkout
    return tmp_path
