"""Tiny synthesised sglang trees, toy plans made of plain replacements, and toy patches made of real edits."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest

from patchkit.errors import TreeError
from patchkit.patchset import load
from patchkit.plan.status import EditStatus, FileChange, PatchStatus, Plan, State
from patchkit.transaction.apply import Transaction
from patchkit.transaction.revert import Reverted, revert
from patchkit.tree.tree import CheckoutTree, OverlayTree, Tree, open_tree

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from patchkit.patchset.patch import Patch
    from patchkit.transaction.unwind import Contents

MIRROR = "srt/managers/mirror.py"
CRLF = "srt/layers/attention/crlf.py"
ABRUPT = "srt/speculative/abrupt.py"
SOURCES = {
    "__init__.py": b"",
    "version.py": b'__version__ = "0.5.12"\n',
    MIRROR: b"""\
class Mirror:
    copies = 0

    def host(self):
        return self.copies


depth = 1
""",
    CRLF: b"# caf\xc3\xa9\r\nclass Backend:\r\n    flag = False\r\n\r\n    stride = 1\r\n",
    ABRUPT: b"class Worker:\n    steps = 3\n    stop = None",
}


@dataclass(frozen=True)
class ToyPatch:
    """A patch whose edits each replace one text of a file by another; None stands for no file."""

    id: str
    swaps: tuple[tuple[str, bytes | None, bytes | None], ...]
    requires: tuple[str, ...] = ()
    hardens: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"Toy {self.id}"


COPIES = ToyPatch("copies", ((MIRROR, b"copies = 0", b"copies = None"), (CRLF, b"False", b"True  # on")))
DEPTH = ToyPatch("depth", ((MIRROR, b"depth = 1", b"depth = 2\nheight = 3"), (ABRUPT, b"= None", b"= 0")))
GUARD = ToyPatch(
    "guard", ((MIRROR, b"        return", b"        # guard\n        return"),), hardens=("copies",)
)
STRIDE = ToyPatch("stride", ((CRLF, b"stride = 1", b"stride = 4"),), requires=("copies",))
TOYS = (COPIES, DEPTH, GUARD, STRIDE)


def toy_plan(tree: Tree, patches: tuple[ToyPatch, ...] = TOYS) -> Plan:
    """Plan toy patches as `patchkit.plan.build.make_plan` plans real ones."""
    contents: dict[str, bytes | None] = {}
    touched: dict[str, list[str]] = {}
    statuses = []
    for patch in patches:
        edits = []
        for file, old, new in patch.swaps:
            text = contents[file] if file in contents else tree.read(file)
            if old is None or new is None:
                pending, made = new != text, new
            else:
                pending = old in (text or b"") and new not in (text or b"")
                made = (text or b"").replace(old, new)
            if pending:
                contents[file] = made
                touched.setdefault(file, []).append(patch.id)
            edits.append(
                EditStatus(f"swap {old!r}", file, "module", State.PENDING if pending else State.APPLIED)
            )
        states = {edit.state for edit in edits}
        statuses.append(
            PatchStatus(
                cast("Patch", patch), states.pop() if len(states) == 1 else State.PARTIAL, tuple(edits)
            )
        )
    changes = [
        FileChange(file, tree.read(file), text, tuple(touched[file])) for file, text in contents.items()
    ]
    return Plan(tree, tuple(statuses), tuple(changes))


class ToyPatches:
    """Toy patches at hand, as `patchkit.transaction.revert.revert` takes them."""

    def __init__(self, tree: Tree, patches: tuple[ToyPatch, ...] = TOYS) -> None:
        self.tree = tree
        self.patches = patches

    def replay(self, contents: Contents, ids: Collection[str]) -> Contents:
        plan = toy_plan(OverlayTree(self.tree, contents), self._chosen(ids))
        return {**contents, **{change.file: change.after for change in plan.changes}}

    def present(self, contents: Contents, ids: Collection[str]) -> frozenset[tuple[str, str]]:
        return frozenset(
            (patch.id, f"swap {old!r}")
            for patch in self._chosen(ids)
            for file, old, new in patch.swaps
            if old is not None and new is not None
            if new in (text := contents[file] or b"") and old not in text
        )

    def _chosen(self, ids: Collection[str]) -> tuple[ToyPatch, ...]:
        return tuple(patch for patch in self.patches if patch.id in ids)


def write_package(package: Path, sources: dict[str, bytes] = SOURCES) -> Path:
    for file, content in sources.items():
        path = package / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return package


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return the mode and bytes of everything below ``folder`` but git's own files."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if ".git" not in name.split("/"):
            content = os.readlink(path).encode() if path.is_symlink() else b""
            found[name] = (path.lstat().st_mode, path.read_bytes() if path.is_file() else content)
    return found


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A Person", "-c", "user.email=person@example.com")
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


APPLIED = {
    MIRROR: b"""\
class Mirror:
    copies = None

    def host(self):
        # guard
        return self.copies


depth = 2
height = 3
""",
    CRLF: b"# caf\xc3\xa9\r\nclass Backend:\r\n    flag = True  # on\r\n\r\n    stride = 4\r\n",
    ABRUPT: b"class Worker:\n    steps = 3\n    stop = 0",
}


def apply(tree: CheckoutTree, *patches: ToyPatch, allow_dirty: bool = False) -> tuple[str, ...]:
    plan = toy_plan(tree, patches or TOYS)
    return Transaction(tree, "toys", allow_dirty=allow_dirty).commit(plan).files


def take_back(tree: CheckoutTree, *patches: ToyPatch) -> Reverted:
    return revert(tree, frozenset(patch.id for patch in patches) or None, ToyPatches(tree))


def edit(tree: CheckoutTree, file: str, old: bytes, new: bytes) -> None:
    text = (tree.package / file).read_bytes()
    assert old in text
    (tree.package / file).write_bytes(text.replace(old, new))


def refused(tree: CheckoutTree, match: str, *patches: ToyPatch) -> None:
    """Assert that apply is refused in one sentence and changes nothing at all."""
    before = everything(tree.root)
    with pytest.raises(TreeError, match=match) as caught:
        apply(tree, *patches)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert everything(tree.root) == before


def contents(tree: CheckoutTree) -> dict[str, bytes | None]:
    return {file: tree.read(file) for file in APPLIED}


@pytest.fixture(autouse=True)
def _git_without_anyones_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture(autouse=True)
def _nothing_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Killing a process, unlike a power cut, loses nothing that was not flushed; flushing only takes time."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package folder of an unpacked wheel."""
    return write_package(tmp_path / "wheel" / "sglang")


@pytest.fixture
def tree(package: Path) -> CheckoutTree:
    return open_tree(package)


@pytest.fixture
def checkout(tmp_path: Path) -> CheckoutTree:
    """A git checkout with everything committed."""
    root = tmp_path / "fork"
    write_package(root / "python" / "sglang")
    git(tmp_path, "init", "-q", "fork")
    git(root, "add", ".")
    git(root, "commit", "-qm", "As upstream has it")
    return open_tree(root)


def patch_text(name: str, *edits: str, **keys: str) -> str:
    """Return a patch file's text; ``keys`` are TOML values."""
    head = [
        "schema = 1",
        f'id = "{name}"',
        f'title = "Toy {name}"',
        'why = "To see."',
        'risk = "None."',
        'verify = "Look."',
    ]
    lines = head + [f"{key} = {value}" for key, value in keys.items()]
    return "\n".join([*lines, *(f"\n{edit}" for edit in edits), ""])


def attribute(file: str, owner: str, code: str) -> str:
    """Return the text of an edit that gives a class an attribute."""
    keys = {"kind": "class-attribute", "why": "toy", "at": f"{file}::{owner}"}
    lines = [f"[edit.{code.partition(' ')[0]}]", *(f'{key} = "{value}"' for key, value in keys.items())]
    return "\n".join([*lines, f"code = '{code}'"])


@pytest.fixture
def patch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of real patches for the tiny tree, which stands in for the built-in ones."""
    folder = tmp_path / "toys"
    flags = (
        attribute(MIRROR, "Mirror", "needs_host = False"),
        attribute(CRLF, "Backend", "needs_device = True"),
    )
    add_patch(folder, "t-flag", *flags)
    add_patch(folder, "t-stop", attribute(ABRUPT, "Worker", "limit = 8"), requires='["t-flag"]')
    add_patch(folder, "t-guard", attribute(MIRROR, "Mirror", "guard = 1"), hardens='["t-flag"]')
    monkeypatch.setattr(load, "BUILT_IN", folder)
    return folder


def add_patch(folder: Path, name: str, *edits: str, **keys: str) -> Path:
    path = folder / name / "patch.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(patch_text(name, *edits, **keys))
    return path


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep what commands remember out of the user's cache folder."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _name: str(folder))
    return folder
