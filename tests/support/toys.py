"""Tiny synthesised sglang trees and toy patches for them, which are planned as any other patch is."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from dataclasses import replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from patchkit.errors import TreeError
from patchkit.patchset import load
from patchkit.patchset.select import PatchSet
from patchkit.plan import vendor
from patchkit.plan.build import make_plan
from patchkit.plan.planner import Planner
from patchkit.plan.status import EditStatus, FileChange, PatchStatus, Plan, State
from patchkit.transaction.apply import Transaction
from patchkit.transaction.revert import RevertResult, revert
from patchkit.tree.tree import CheckoutTree, open_tree
from support.faults import killings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.patch import Patch

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


def toy(name: str, *edits: str, **keys: str) -> Patch:
    """Return the patch with the text of `patch_text`."""
    return load.read(msgspec.toml.decode(patch_text(name, *edits, **keys)), Path(name, "patch.toml"))


def statement(kind: str, name: str, at: str, find: str, code: str) -> str:
    """Return the text of an edit of the statements that ``find`` matches."""
    lines = [f"[edit.{name}]", f'kind = "{kind}"', 'why = "toy"', f'at = "{at}"']
    return "\n".join([*lines, f"find = '''{find}'''", f"code = '''{code}'''"])


def rewriting(name: str, at: str, find: str, code: str) -> str:
    return statement("rewrite", name, at, find, code)


COPIES = toy(
    "copies",
    rewriting("copies", f"{MIRROR}::Mirror", "copies = 0", "copies = None"),
    rewriting("flag", f"{CRLF}::Backend", "flag = False", "flag = True"),
)
DEPTH = toy(
    "depth",
    rewriting("depth", MIRROR, "depth = 1", "depth = 2\nheight = 3"),
    rewriting("stop", f"{ABRUPT}::Worker", "stop = None", "stop = 0"),
)
GUARD = toy(
    "guard",
    statement("insert-before", "guard", f"{MIRROR}::Mirror.host", "return $value", "guard()"),
)
STRIDE = toy(
    "stride",
    rewriting("stride", f"{CRLF}::Backend", "stride = 1", "stride = 4"),
    requires='["copies"]',
)
TOYS = (COPIES, DEPTH, GUARD, STRIDE)


DELETION = msgspec.structs.replace(COPIES, id="take", title="Toy take", edits=())


def with_deletion(plan: Plan, file: str) -> Plan:
    """Return a plan that also deletes a file, which a transaction can do and no kind of edit does."""
    before = plan.tree.read(file)
    if before is None:
        return plan
    status = PatchStatus(DELETION, State.PENDING, (EditStatus("take", file, "", State.PENDING),))
    change = FileChange(file, before, None, (DELETION.id,))
    return replace(plan, patches=(*plan.patches, status), changes=(*plan.changes, change))


def new_file_edit(file: str, code: str) -> str:
    """Return the text of an edit that creates a file."""
    return f'[edit.make]\nkind = "new-file"\nwhy = "toy"\nat = "{file}"\ncode = "{code}"'


def planner_of(tree: CheckoutTree, patches: Sequence[Patch] = TOYS) -> Planner:
    """Return a planner of patches, as `patchkit.api.revert` creates it."""
    return Planner(tree, PatchSet(patches, "toys"))


def write_package(package: Path, sources: dict[str, bytes] = SOURCES) -> Path:
    for file, content in sources.items():
        path = package / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return package


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return the mode and bytes of everything below ``folder`` except git's own files."""
    found = {}
    # Some tests call this at each of hundreds of steps, and pathlib is slower.
    top = len(os.path.join(folder, ""))
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in (*folders, *names):
            path = os.path.join(where, name)
            if os.path.isfile(path):
                with open(path, "rb") as stream:
                    content = stream.read()
            else:
                content = os.fsencode(os.readlink(path)) if os.path.islink(path) else b""
            if name != ".git":
                found[path[top:]] = os.lstat(path).st_mode, content
    return found


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A Person", "-c", "user.email=person@example.com")
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


APPLIED = {
    MIRROR: b"""\
class Mirror:
    # patchkit copies: toy
    copies = None

    def host(self):
        # patchkit guard: toy
        guard()
        return self.copies


# patchkit depth: toy
depth = 2
height = 3
""",
    CRLF: b"# caf\xc3\xa9\r\nclass Backend:\r\n    # patchkit copies: toy\r\n    flag = True\r\n\r\n"
    b"    # patchkit stride: toy\r\n    stride = 4\r\n",
    ABRUPT: b"class Worker:\n    steps = 3\n    # patchkit depth: toy\n    stop = 0",
}


def apply(tree: CheckoutTree, *patches: Patch, allow_dirty: bool = False) -> tuple[str, ...]:
    plan = make_plan(tree, patches or TOYS)
    return Transaction(tree, allow_dirty=allow_dirty).commit(plan).files


def revert_patches(tree: CheckoutTree, *patches: Patch) -> RevertResult:
    return revert(tree, frozenset(patch.id for patch in patches) or None, planner_of(tree))


def edit(tree: CheckoutTree, file: str, old: bytes, new: bytes) -> None:
    text = (tree.package / file).read_bytes()
    assert old in text
    (tree.package / file).write_bytes(text.replace(old, new))


def refused(tree: CheckoutTree, match: str, *patches: Patch) -> None:
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
    monkeypatch.setenv("GIT_TEST_FSYNC", "0")


def socket_at(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)  # A bound one's path has 107 bytes at most.


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package folder of an unpacked wheel."""
    return write_package(tmp_path / "wheel" / "sglang")


@pytest.fixture
def tree(package: Path) -> CheckoutTree:
    return open_tree(package)


def checked_in(root: Path) -> CheckoutTree:
    """Make a git checkout of the toy package with everything committed."""
    write_package(root / "python" / "sglang")
    for name, content in _repository().items():
        path = root / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(content)
    # The index has the times of the files that it was made of.
    git(root, "update-index", "-q", "--refresh")
    return open_tree(root)


@cache
def _repository() -> dict[str, bytes | None]:
    """Return the files and, as None, the folders of the repository of every checkout of the toy package."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_package(root / "python" / "sglang")
        git(root, "init", "-q")
        git(root, "add", ".")
        git(root, "commit", "-qm", "As upstream has it")
        own = root / ".git"
        return {
            path.relative_to(own).as_posix(): None if path.is_dir() else path.read_bytes()
            for path in sorted(own.rglob("*"))
            if path.suffix != ".sample"
        }


@pytest.fixture
def checkout(tmp_path: Path) -> CheckoutTree:
    """A git checkout with everything committed."""
    return checked_in(tmp_path / "fork")


def attribute(file: str, owner: str, code: str) -> str:
    """Return the text of an edit that adds an attribute to a class."""
    keys = {"kind": "class-attribute", "why": "toy", "at": f"{file}::{owner}"}
    lines = [f"[edit.{code.partition(' ')[0]}]", *(f'{key} = "{value}"' for key, value in keys.items())]
    return "\n".join([*lines, f"code = '{code}'"])


@pytest.fixture(scope="session")
def halfway(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The number of the first call, as `killed` counts them, before which an apply has written some files, not all."""
    untouched = {file: SOURCES[file] for file in APPLIED}
    tree = open_tree(write_package(tmp_path_factory.mktemp("halfway") / "sglang"))
    for number in killings(partial(apply, tree), tree.package):
        if contents(tree) not in (untouched, APPLIED):
            return number
    raise AssertionError


@pytest.fixture
def patch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of patches for the tiny tree, loaded in place of the built-in ones."""
    folder = tmp_path / "toys"
    add_toys(folder)
    monkeypatch.setattr(load, "BUILT_IN", folder)
    return folder


def add_toys(folder: Path) -> None:
    """Write patches for the tiny tree."""
    flags = (
        attribute(MIRROR, "Mirror", "needs_host = False"),
        attribute(CRLF, "Backend", "needs_device = True"),
    )
    add_patch(folder, "t-flag", *flags)
    add_patch(folder, "t-stop", attribute(ABRUPT, "Worker", "limit = 8"), requires='["t-flag"]')
    add_patch(folder, "t-guard", attribute(MIRROR, "Mirror", "guard = 1"))


def add_patch(folder: Path, name: str, *edits: str, **keys: str) -> Path:
    path = folder / name / "patch.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(patch_text(name, *edits, **keys))
    return path


def few_runtime_files(*more: str) -> dict[str, bytes]:
    """Return the vendored runtime with three of its files and ``more``, since all of them take the same calls."""
    needed = ("_patchkit/__init__.py", "runtime/__init__.py", "runtime/api_1.py", *more)
    return {name: text for name, text in vendor.runtime_files().items() if name.endswith(needed)}


@pytest.fixture
def few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the vendored runtime have few files."""
    files = few_runtime_files("backends/__init__.py", "backends/paged_kernel.py")
    monkeypatch.setattr(vendor, "runtime_files", lambda: files)


_numbers = count()


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Redirect the user's cache and data folders."""
    # To number a folder of its own, pytest lists those of all tests before.
    own = tmp_path_factory.getbasetemp() / "remembered" / str(next(_numbers))
    folder, data = own / "cache", own / "data"
    folder.mkdir(parents=True)
    data.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setenv("XDG_DATA_HOME", str(data))
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _name: str(folder))
    monkeypatch.setattr("platformdirs.user_data_dir", lambda _name: str(data))
    return folder
