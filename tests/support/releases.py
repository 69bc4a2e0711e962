"""Releases of sglang: each wheel is downloaded once, and every test that changes a tree has its own copy.

The wheels are in the folder PATCHKIT_TEST_CACHE, by default in the checkout's `.cache`. Only the Python files
of the package, without those of `multimodal_gen`, and the metadata are unpacked.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import libcst as cst
import pytest
from click.testing import CliRunner
from filelock import FileLock

from patchkit.cli import main
from patchkit.findings.finding import Confidence
from patchkit.patchset import load
from patchkit.plan.build import inspect, make_plan
from patchkit.tree.tree import CheckoutTree, OverlayTree, Tree, open_tree
from patchkit.verify import engine
from patchkit.verify.subject import Criteria, Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from click.testing import Result as Reply

    from patchkit.patchset.patch import Patch
    from patchkit.plan.status import Plan
    from patchkit.verify.result import Result

LACKING = ("0.5.11", "0.5.12", "0.5.12.post1")
"""Releases that have none of upstream's pull requests."""
HAVING = ("0.5.13", "0.5.13.post1", "0.5.14")
"""Releases that have all of them."""
TOO_OLD = ("0.5.4", "0.5.10")
"""Releases that are older than the supported ones."""
LATEST = "0.5.23"
REFERENCE = "0.5.12.post1"
UPSTREAM = (
    *("24954", "25002", "25925", "26128", "26241", "26313", "26800", "26824", "26941", "27338", "27360"),
    "27372",
)
"""Patches of which the second of those releases have upstream's form."""
IN_PART = ("25925", "26128")
"""Those of them with parts that upstream's form lacks."""
OWN = (
    "24413",
    "25980",
    "26380",
    "26397",
    "26424",
    "27689",
    "27846",
    "27998",
    "28039",
    "28397",
    "28464",
    "28465",
    "28496",
    "28559",
    "28579",
    "28633",
    "28782",
    "28856",
    "29343",
    "29413",
    "31090",
    "31364",
    "31738",
    "32886",
    "33758",
    "34238",
    "35546",
    "pk-accepted-tokens",
    "pk-attention-views",
    "pk-dead-work",
    "pk-draft-slots",
    "pk-fa3-branches",
    "pk-fa3-draft-extend-graph",
    "pk-fa3-verify-schedule",
    "pk-flashinfer-lengths",
    "pk-head-graph",
    "pk-hybrid-opt-out",
    "pk-linear-launches",
    "pk-small-launches",
    "pk-step-inputs",
    "pk-step-relay",
    "pk-tail-graph",
    "pk-triton-replay",
    "pk-trtllm-mha-opt-out",
    "pk-verify-outputs",
)
"""Patches that the first of those releases lacks: this project's own, and later ones of upstream's."""

OF_LATER_RELEASES = ("29354", "29368", "29792", "33892", "35748", "36140")
"""Patches for what came after the releases that have none."""

OF_LATER_CODE = ("pk-accepted-paths", "pk-draft-graph", "pk-planned-tail-graph", "pk-tree-extend-graph")
"""Patches that have no place in the first of these releases."""

PATCHES: tuple[Patch, ...] = tuple(
    patch for patch in load.patches() if patch.id not in (*OF_LATER_RELEASES, *OF_LATER_CODE)
)


def wheel(version: str) -> Path:
    """Return the wheel of a release, downloading it if the cache has none."""
    cache = Path(os.environ.get("PATCHKIT_TEST_CACHE") or Path(__file__).parents[2] / ".cache")
    cache.mkdir(parents=True, exist_ok=True)
    name = f"sglang-{version}-*.whl"
    with FileLock(cache / f"sglang-{version}.lock"):
        if not any(cache.glob(name)):
            _download(version, cache)
    (path,) = cache.glob(name)
    return path


def _download(version: str, cache: Path) -> None:
    # The wheels are of one Python and one platform; no code of theirs runs here.
    target = ("--python-version", "3.11", "--platform", "manylinux_2_34_x86_64")
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
    with tempfile.TemporaryDirectory(dir=cache) as fresh:
        wanted = ("--no-deps", "--only-binary=:all:", *target, "--dest", fresh, f"sglang=={version}")
        subprocess.run((*pip, *wanted), check=True)
        (downloaded,) = Path(fresh).iterdir()
        downloaded.replace(cache / downloaded.name)


def unpack(version: str, folder: Path) -> None:
    """Unpack a wheel's Python files and metadata below ``folder``, with the wheel's modes, so that it is importable."""
    with zipfile.ZipFile(wheel(version)) as archive:
        for member in archive.infolist():
            is_code = member.filename.startswith("sglang/") and member.filename.endswith(".py")
            # A third of the files, and another server's: no command reads more of them than their names and bytes.
            is_code = is_code and not member.filename.startswith("sglang/multimodal_gen/")
            if is_code or member.filename.startswith(f"sglang-{version}.dist-info/"):
                path = Path(archive.extract(member, folder))
                path.chmod((member.external_attr >> 16) & 0o777 or 0o644)
    # Compiled from these at serving time; their absence fails at import.
    for kernels in (folder / "sglang" / name for name in ("jit_kernel", "kernels/jit")):
        for sources in (kernels / "csrc", kernels / "include") if kernels.is_dir() else ():
            sources.mkdir(exist_ok=True)


_SAME: dict[bytes, bytes] = {}
"""Contents of files, most of which releases have in common."""


@dataclass(frozen=True)
class UnchangingTree(CheckoutTree):
    """A read-only tree: each file is read once."""

    @cached_property
    def _read(self) -> dict[str, bytes | None]:
        return {}

    @cached_property
    def _listed(self) -> dict[tuple[str, str], list[str]]:
        return {}

    def read(self, file: str) -> bytes | None:
        if file not in self._read:
            text = super().read(file)
            self._read[file] = text if text is None else _SAME.setdefault(text, text)
        return self._read[file]

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        if (folder, suffix) not in self._listed:
            self._listed[folder, suffix] = super().files(folder, suffix)
        return list(self._listed[folder, suffix])


class Releases:
    """Unpacked releases, which must not be changed, and patchkit's plans for them.

    Workers may share the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @functools.cache  # noqa: B019 - lives as long as the test session
    def tree(self, version: str) -> CheckoutTree:
        """Return a release as in its wheel."""
        made = self._once(version, lambda folder: unpack(version, folder))
        return UnchangingTree(root=made.root, package=made.package)

    @functools.cache  # noqa: B019
    def applied(self, version: str, *patches: str) -> CheckoutTree:
        """Return a release to which the command applied patches and those that they require."""
        named = hashlib.sha256(" ".join(sorted(patches)).encode()).hexdigest()[:16]

        def make(folder: Path) -> None:
            # With the release's own files, in the place of which the command puts others.
            run("apply", _copied(self.tree(version), folder, "-al").root, *patches)

        return self._once(f"{version}-{named}", make)

    def _once(self, name: str, make: Callable[[Path], object]) -> CheckoutTree:
        made = self._folder / name
        with FileLock(self._folder / f"{name}.lock"):
            if not made.exists():
                # The folder stays: a run of `scripts/mutate.py` keeps the tree as it was beside it.
                fresh = Path(tempfile.mkdtemp(dir=self._folder)) / name
                make(fresh)
                fresh.rename(made)
        return open_tree(made)

    @functools.cache  # noqa: B019
    def plan(self, version: str) -> Plan:
        """Return the plan of all patches for a release."""
        return make_plan(self.tree(version), PATCHES)

    @functools.cache  # noqa: B019
    def patched(self, version: str) -> OverlayTree:
        """Return a release with all patches, in memory only."""
        return after(self.plan(version))

    def copy(self, version: str, folder: Path, *patches: str) -> CheckoutTree:
        """Return a release unpacked below ``folder``, with ``patches`` as ``applied``, for one test to change."""
        return _copied(self.applied(version, *patches) if patches else self.tree(version), folder, "-a")


def _copied(tree: CheckoutTree, folder: Path, how: str) -> CheckoutTree:
    folder.mkdir(parents=True, exist_ok=True)
    # A quarter of shutil.copytree's time, for thousands of files.
    subprocess.run(["cp", how, f"{tree.root}/.", folder], check=True)
    return open_tree(folder)


def after(plan: Plan) -> OverlayTree:
    """Return the plan's tree as applying the plan leaves it."""
    return OverlayTree(plan.tree, {change.file: change.after for change in plan.changes})


def texts(tree: OverlayTree) -> dict[str, bytes]:
    """Return the files that a tree overlays; it removes none."""
    laid = {file: text for file, text in tree.contents.items() if text is not None}
    assert laid.keys() == tree.contents.keys()
    return laid


def states(tree: Tree, patches: tuple[Patch, ...] = PATCHES) -> dict[str, str]:
    """Return each patch's state on a tree."""
    return {status.patch.id: status.state.value for status in inspect(tree, patches)}


def fingerprints(folder: Path) -> dict[str, tuple[int, str]]:
    """Return the mode and SHA-256 of every file below ``folder``, the modes of folders too."""
    found = {}
    for where, folders, files in os.walk(folder):
        for path in (os.path.join(where, name) for name in (*folders, *files)):
            mode = os.lstat(path).st_mode
            content = b"" if stat.S_ISDIR(mode) else Path(path).read_bytes()
            found[path.removeprefix(f"{folder}/")] = mode, hashlib.sha256(content).hexdigest()
    return found


def without_record(prints: Mapping[str, tuple[int, str]]) -> dict[str, tuple[int, str]]:
    """Leave out the record and patchkit's own folder."""
    own = {".patchkit", "patchkit.lock"}
    return {name: value for name, value in prints.items() if own.isdisjoint(name.split("/"))}


def run(*arguments: object, code: int = 0) -> Reply:
    """Run a patchkit command; assert that its exit code is ``code``."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def answer(*arguments: object, code: int = 0) -> Any:
    """Return a patchkit command's JSON answer."""
    return json.loads(run(*arguments, "--json", code=code).stdout)


def states_in(reply: Mapping[str, Any]) -> dict[str, str]:
    """Return each patch's state in a command's answer, except patches for later releases."""
    later = (*OF_LATER_RELEASES, *OF_LATER_CODE)
    return {patch["id"]: patch["state"] for patch in reply["patches"] if patch["id"] not in later}


def checked(root: Path, name: str) -> Result:
    """Return the result of one check of a tree, with all patches: the others of a verify take most of its time."""
    subject = Subject(open_tree(root), tuple(load.patches()), Criteria(Confidence.LIKELY))
    (check,) = (check for check in engine.all_checks() if check.name == name)
    return engine._run(check, subject)[0]


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    """The releases of sglang that tests use, unpacked once for all workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "releases"
    folder.mkdir(exist_ok=True)
    return Releases(folder)


@pytest.fixture(scope="module")
def _parsed_once() -> Iterator[None]:
    """Syntax trees are immutable, so one parse of a file is shared by every test that plans for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cst, "parse_module", functools.lru_cache(maxsize=64)(cst.parse_module))
        yield
