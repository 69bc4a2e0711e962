from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from typing import TYPE_CHECKING

import pytest
from support.repositories import clone, committing, copied, hook
from support.toys import ABRUPT, MIRROR, add_patch, attribute, checked_in, everything, git

from patchkit import api
from patchkit.errors import ConflictError
from patchkit.findings.finding import Confidence
from patchkit.patchset import load
from patchkit.plan import vendor as vendoring
from patchkit.plan.vendor import FOLDER, RESTORE, runtime_files
from patchkit.tree.tree import open_tree
from patchkit.verify.subject import Criteria

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

IMPORTS = '["from patchkit.runtime import api_1 as patchkit_api"]'
BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "patchkit":
            raise ImportError("patchkit is not installed here")

sys.meta_path.insert(0, Blocked())
"""


@pytest.fixture
def patch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two patches that use the runtime, and one that does not."""
    folder = tmp_path / "toys"
    add_patch(
        folder, "v-longest", attribute(MIRROR, "Mirror", "longest = patchkit_api.longest"), imports=IMPORTS
    )
    add_patch(folder, "v-plain", attribute(ABRUPT, "Worker", "limit = 8"))
    add_patch(
        folder, "v-total", attribute(ABRUPT, "Worker", "total = patchkit_api.host_total"), imports=IMPORTS
    )
    monkeypatch.setattr(load, "BUILT_IN", folder)
    return folder


@pytest.fixture(autouse=True)
def _patches(patch_folder: Path) -> None:
    del patch_folder


def vendor(tree: CheckoutTree, *ids: str) -> tuple[str, ...]:
    return api.apply(tree, load.patches(), ids, runtime="vendored").files


def states(tree: CheckoutTree) -> dict[str, str]:
    return {status.patch.id: status.state.value for status in api.status(tree, load.patches())}


def test_the_runtime_is_in_the_tree_and_imports_point_there(tree: CheckoutTree) -> None:
    files = vendor(tree)
    assert set(runtime_files()) < set(files)
    assert b"from sglang._patchkit.runtime import api_1 as patchkit_api" in (tree.read(MIRROR) or b"")
    for file in tree.files(""):
        assert not re.search(rb"^\s*(from|import) patchkit", tree.read(file) or b"", re.MULTILINE), file
    assert set(states(tree).values()) == {"applied"}
    for file in runtime_files():
        assert b"SPDX-License-Identifier: Apache-2.0" in (tree.read(file) or b"")[:200]


def test_patches_that_need_no_runtime_bring_none(tree: CheckoutTree) -> None:
    assert vendor(tree, "v-plain") == (ABRUPT,)


def test_revert_takes_all_of_it_back(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    vendor(tree)
    api.revert(tree, load.patches())
    assert everything(tree.root) == before


@pytest.mark.parametrize("together", [True, False])
def test_the_runtime_stays_for_as_long_as_a_patch_uses_it(tree: CheckoutTree, together: bool) -> None:
    before = everything(tree.root)
    for ids in [("v-longest", "v-total")] if together else [("v-longest",), ("v-total",)]:
        vendor(tree, *ids)
    api.revert(tree, load.patches(), ("v-longest",))
    assert tree.read(f"{FOLDER}/runtime/api_1.py") is not None
    assert states(tree) == {"v-longest": "pending", "v-plain": "pending", "v-total": "applied"}
    api.revert(tree, load.patches(), ("v-total",))
    assert everything(tree.root) == before


def test_a_tree_keeps_the_runtime_that_it_has(tree: CheckoutTree) -> None:
    vendor(tree, "v-longest")
    api.apply(tree, load.patches(), ("v-total",))
    assert b"from sglang._patchkit.runtime" in (tree.read(ABRUPT) or b"")


@pytest.mark.parametrize(("first", "then"), [("import", "vendored"), ("vendored", "import")])
def test_two_runtimes_in_one_tree_are_refused(tree: CheckoutTree, first: str, then: str) -> None:
    api.apply(tree, load.patches(), ("v-longest",), runtime=first)
    before = everything(tree.root)
    with pytest.raises(ConflictError, match=f"--runtime {then}"):
        api.apply(tree, load.patches(), ("v-total",), runtime=then)
    assert everything(tree.root) == before


@pytest.mark.parametrize("committing", [False, True])
@pytest.mark.parametrize(("first", "then"), [("import", "vendored"), ("vendored", "import")])
def test_the_steps_of_the_refusal_lead_to_the_other_runtime(
    checkout: CheckoutTree, first: str, then: str, committing: bool
) -> None:
    def commit() -> None:
        if committing:
            git(checkout.root, "add", "-A")
            git(checkout.root, "commit", "-qm", "A step")

    def files() -> dict[str, tuple[int, bytes]]:
        return {name: at for name, at in everything(checkout.package).items() if ".patchkit" not in name}

    api.apply(checkout, load.patches(), ("v-longest",), runtime=then)
    wanted = files()
    api.revert(checkout, load.patches())
    api.apply(checkout, load.patches(), ("v-longest",), runtime=first)
    commit()
    steps = "patchkit revert, commit that if the patches are committed, then patchkit apply --runtime"
    with pytest.raises(ConflictError, match=f"run {steps} {then}"):
        api.apply(checkout, load.patches(), ("v-longest",), runtime=then)
    api.revert(checkout, load.patches())
    commit()
    api.apply(checkout, load.patches(), ("v-longest",), runtime=then)
    assert files() == wanted


def verdict(tree: CheckoutTree) -> dict[str, list[str]]:
    criteria = Criteria(Confidence.CERTAIN)
    results = api.verify(tree, load.patches(), criteria).results
    return {result.check: [finding.message for finding in result.findings] for result in results}


def test_verify_recognises_the_runtime_in_the_tree(tree: CheckoutTree) -> None:
    vendor(tree)
    found = verdict(tree)
    assert found["imports"] == []
    assert found["record"] == []


def test_verify_of_a_deleted_runtime_names_commands_that_restore_it(tree: CheckoutTree) -> None:
    vendor(tree)
    shutil.rmtree(tree.package / FOLDER)
    results = api.verify(tree, load.patches(), Criteria(Confidence.CERTAIN)).results
    (imports,) = (result for result in results if result.check == "imports")
    assert RESTORE in {finding.guard for finding in imports.findings}
    api.revert(tree, load.patches())
    vendor(tree)
    assert verdict(tree)["imports"] == []


def test_apply_refuses_a_tree_whose_runtime_was_deleted(tree: CheckoutTree) -> None:
    vendor(tree)
    shutil.rmtree(tree.package / FOLDER)
    with pytest.raises(ConflictError, match="which is missing"):
        api.apply(tree, load.patches())


def test_verify_finds_a_runtime_that_somebody_took_out(tree: CheckoutTree) -> None:
    vendor(tree)
    (tree.package / FOLDER / "runtime" / "api_1.py").unlink()
    assert any("has no api_1" in message for message in verdict(tree)["imports"])


def test_commits_and_series_carry_the_runtime(checkout: CheckoutTree, tmp_path: Path) -> None:
    done = api.commit(committing(checkout), load.patches(), runtime="vendored")
    assert [one.patch for one in done.commits] == ["v-longest", "v-plain", "v-total"]
    assert git(checkout.root, "status", "--porcelain") == ""
    assert f"python/sglang/{FOLDER}/runtime/api_1.py" in git(checkout.root, "ls-files")
    api.revert(checkout, load.patches())
    assert not (checkout.package / FOLDER).exists()


def of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the loaded runtime differ from the copied one in its version, a module, a new one and one that is gone."""
    files = {
        file: text.replace(b"sglang-patchkit ", b"sglang-patchkit 9")
        for file, text in vendoring.runtime_files().items()
    }
    changed, gone = sorted(file for file in files if file.startswith(f"{FOLDER}/backends/"))[:2]
    files[changed] += b"later = 1\n"
    del files[gone]
    files[f"{FOLDER}/runtime/later.py"] = files[f"{FOLDER}/runtime/__init__.py"]
    monkeypatch.setattr(vendoring, "runtime_files", lambda: files)


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., CheckoutTree]:
    """Return a function that makes, once each, a checkout in which all patches and the runtime are committed."""

    @cache
    def made(*, licensed: bool = False) -> CheckoutTree:
        tree = committing(checked_in(tmp_path_factory.mktemp("committed") / "fork"))
        if licensed:
            license_hook(tree)
        api.commit(tree, load.patches(), runtime="vendored")
        return tree

    return made


def license_hook(tree: CheckoutTree) -> None:
    """Let each commit add a line to new files, and commit the files with it."""
    hook(
        tree,
        "pre-commit",
        "git diff --cached --name-only --diff-filter=A | while read -r file; do\n"
        'sed -i \'1i # A Vendor, 2026\' "$file"; git add "$file"; done',
    )


@pytest.mark.usefixtures("few_files")
@pytest.mark.parametrize("place", ["here", "clone"])
@pytest.mark.parametrize("change", ["none", "version", "license", "license and version", "line ends"])
def test_a_committed_runtime_goes_with_its_last_user(
    committed: Callable[..., CheckoutTree],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    place: str,
) -> None:
    origin = committed(licensed="license" in change)
    root = (copied(origin, tmp_path / "fork") if place == "here" else clone(origin, tmp_path)).root
    if change == "line ends":
        git(root, "config", "core.autocrlf", "true")
        git(root, "rm", "-rq", "--cached", ".")
        git(root, "reset", "-q", "--hard")
    if "version" in change:
        of_another_version(monkeypatch)
    tree = open_tree(root)
    api.revert(tree, load.patches())
    assert not (tree.package / FOLDER).exists()
    assert set(states(tree).values()) == {"pending"}
    git(root, "add", "-A")
    assert git(root, "diff", "--cached", "--stat", git(root, "log", "--format=%H").split()[-1]) == ""


@pytest.mark.usefixtures("few_files")
@pytest.mark.parametrize("is_committed", [False, True])
def test_an_edited_file_of_a_committed_runtime_is_kept_and_named(
    committed: Callable[..., CheckoutTree],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_committed: bool,
) -> None:
    tree = clone(committed(), tmp_path)
    edited = tree.package / FOLDER / "runtime" / "api_1.py"
    edited.write_bytes(edited.read_bytes() + b"mine = 1\n")
    if is_committed:
        git(tree.root, "commit", "-qam", "mine")
    of_another_version(monkeypatch)
    before = everything(tree.root)
    with pytest.raises(ConflictError, match=r"api_1.py: .*was edited after apply"):
        api.revert(tree, load.patches())
    assert everything(tree.root) == before


def test_a_wheel_of_the_tree_works_without_patchkit(tree: CheckoutTree, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="The runtime needs it.")
    vendor(tree)
    (tree.root / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "fork"\nversion = "1"\n[tool.hatch.build.targets.wheel]\npackages = ["sglang"]\n'
    )
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist"))
    subprocess.run(build, cwd=tree.root, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = f"{BLOCKED}\nsys.path.insert(0, {str(tmp_path / 'site')!r})\n"
    code += (
        "from sglang.srt.managers.mirror import Mirror\nfrom sglang.srt.speculative.abrupt import Worker\n"
    )
    code += "print(Mirror.longest.__module__, Worker.total.__module__)\n"
    ran = subprocess.run(
        (sys.executable, "-c", code), cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert ran.stdout.split() == ["sglang._patchkit.runtime.lengths"] * 2
