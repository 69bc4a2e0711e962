"""Tiny synthesised sglang trees, and plans made of plain replacements, for tests that need no real patch."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from patchkit.plan import EditStatus, FileChange, PatchStatus, Plan, State
from patchkit.tree import CheckoutTree, OverlayTree, Tree, open_tree

MIRROR = "srt/managers/mirror.py"
CRLF = "srt/layers/attention/crlf.py"
ABRUPT = "srt/speculative/abrupt.py"
SOURCES = {
    "__init__.py": b"",
    "version.py": b'__version__ = "0.5.12"\n',
    MIRROR: b"class Mirror:\n    copies = 0\n\n    def host(self):\n        return self.copies\n\n\ndepth = 1\n",
    CRLF: b"# caf\xc3\xa9\r\nclass Backend:\r\n    flag = False\r\n\r\n    stride = 1\r\n",
    ABRUPT: b"class Worker:\n    steps = 3\n    stop = None",
}


@dataclass(frozen=True)
class ToyPatch:
    """A patch whose edits replace one text by another, file by file."""

    id: str
    swaps: tuple[tuple[str, bytes, bytes], ...]
    requires: tuple[str, ...] = ()
    hardens: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"Toy {self.id}"


COPIES = ToyPatch("copies", ((MIRROR, b"copies = 0", b"copies = None"), (CRLF, b"False", b"True  # on")))
DEPTH = ToyPatch("depth", ((MIRROR, b"depth = 1", b"depth = 2\nheight = 3"), (ABRUPT, b"= None", b"= 0")))
GUARD = ToyPatch("guard", ((MIRROR, b"        return", b"        assert True\n        return"),), hardens=("copies",))
STRIDE = ToyPatch("stride", ((CRLF, b"stride = 1", b"stride = 4"),), requires=("copies",))
TOYS = (COPIES, DEPTH, GUARD, STRIDE)


def toy_plan(tree: Tree, patches: tuple[ToyPatch, ...] = TOYS) -> Plan:
    """Plan toy patches as `patchkit.plan.make_plan` plans real ones; a text that is gone counts as replaced."""
    contents: dict[str, bytes] = {}
    touched: dict[str, list[str]] = {}
    statuses = []
    for patch in patches:
        edits = []
        for file, old, new in patch.swaps:
            text = contents.get(file) or tree.read(file) or b""
            pending = old in text and new not in text
            if pending:
                contents[file] = text.replace(old, new)
                touched.setdefault(file, []).append(patch.id)
            edits.append(EditStatus(f"swap {file}", file, "module", State.PENDING if pending else State.APPLIED))
        states = {edit.state for edit in edits}
        statuses.append(PatchStatus(patch, states.pop() if len(states) == 1 else State.PARTIAL, tuple(edits)))
    changes = [FileChange(file, tree.read(file), text, tuple(touched[file])) for file, text in contents.items()]
    return Plan(tree, tuple(statuses), tuple(changes))


def toy_replay(tree: Tree, patches: tuple[ToyPatch, ...] = TOYS):
    """Return the callable that `patchkit.transaction.revert` takes, for toy patches."""

    def replay(contents, ids):
        plan = toy_plan(OverlayTree(tree, contents), tuple(patch for patch in patches if patch.id in ids))
        return {**contents, **{change.file: change.after for change in plan.changes}}

    return replay


def write_package(package: Path, sources: dict[str, bytes] = SOURCES) -> Path:
    for file, content in sources.items():
        path = package / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return package


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return every file below ``folder`` with its mode and bytes, links and empty folders too."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if ".git" in name.split("/"):
            continue
        if path.is_symlink():
            found[name] = (0, str(path.readlink()).encode())
        else:
            found[name] = (path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
    return found


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A Person", "-c", "user.email=person@example.com")
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package folder in an unpacked wheel."""
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
