"""Byte code that Python does not compare with its source never runs in the place of what was written."""

from __future__ import annotations

import compileall
import json
import py_compile
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
from support.faults import killings
from support.releases import answer, run
from support.toys import ABRUPT, APPLIED, MIRROR, apply, everything, git, revert_patches

from patchkit.errors import TreeError
from patchkit.transaction.recover import recover

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

_UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH


def compiled(tree: CheckoutTree, mode: py_compile.PycInvalidationMode = _UNCHECKED) -> None:
    """Compile a package as an installer does, for every level of optimisation."""
    for level in (0, 1, 2):
        assert compileall.compile_dir(tree.package, quiet=1, invalidation_mode=mode, optimize=level)


def runs(tree: CheckoutTree, file: str, name: str) -> str:
    """Return the value of a name of a module, as a new process of this Python imports it."""
    path = tree.package / file
    command = f"import {path.stem} as module; print(module.{name})"
    done = subprocess.run(
        [sys.executable, "-c", command], check=True, capture_output=True, text=True, cwd=path.parent
    )
    return done.stdout.strip()


def cached(tree: CheckoutTree, file: str) -> list[str]:
    path = tree.package / file
    return sorted(path.name for path in (path.parent / "__pycache__").glob(f"{path.stem}.*"))


def test_what_is_applied_and_reverted_runs(tree: CheckoutTree) -> None:
    compiled(tree)
    before = runs(tree, ABRUPT, "Worker.stop")
    apply(tree)
    assert runs(tree, ABRUPT, "Worker.stop") != before
    compiled(tree)
    revert_patches(tree)
    assert runs(tree, ABRUPT, "Worker.stop") == before


def test_byte_code_of_other_files_and_byte_code_that_python_checks_stay(tree: CheckoutTree) -> None:
    compiled(tree)
    path = tree.package / ABRUPT
    checked = path.parent / "__pycache__" / f"{path.stem}.cpython-399.pyc"
    py_compile.compile(
        str(path), cfile=str(checked), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
    )
    foreign = checked.with_name(f"{path.stem}.pypy310.pyc")
    foreign.write_bytes(b"abcd" + (1).to_bytes(4, "little") + b"12345678")
    beside = checked.with_name(f"{path.stem}_two.cpython-311.pyc")
    beside.write_bytes(foreign.read_bytes())
    apply(tree)
    assert cached(tree, ABRUPT) == [checked.name]
    assert beside.exists()


def test_an_apply_that_is_killed_at_any_call_leaves_none_after_it_is_continued(tree: CheckoutTree) -> None:
    compiled(tree)
    for number in killings(partial(apply, tree), tree.package):
        recover(tree)
        if (tree.package / MIRROR).read_bytes() == APPLIED[MIRROR]:
            assert not cached(tree, MIRROR), number


def test_a_folder_of_byte_code_without_write_bits_is_refused(tree: CheckoutTree) -> None:
    compiled(tree)
    cache = (tree.package / MIRROR).parent / "__pycache__"
    cache.chmod(0o555)
    before = everything(tree.package)
    try:
        with pytest.raises(TreeError, match="__pycache__ is read-only"):
            apply(tree)
        assert everything(tree.package) == before
    finally:
        cache.chmod(0o755)


def test_a_link_in_the_place_of_the_folder_is_not_followed(tree: CheckoutTree, tmp_path: Path) -> None:
    compiled(tree)
    cache = (tree.package / MIRROR).parent / "__pycache__"
    cache.rename(tmp_path / "elsewhere")
    cache.symlink_to(tmp_path / "elsewhere")
    before = everything(tmp_path / "elsewhere")
    apply(tree)
    assert everything(tmp_path / "elsewhere") == before


@pytest.mark.usefixtures("patch_folder")
def test_verify_reports_byte_code_of_the_old_content(tree: CheckoutTree) -> None:
    compiled(tree)
    cache = (tree.package / MIRROR).parent / "__pycache__"
    old = {path: path.read_bytes() for path in cache.iterdir()}
    run("apply", tree.package)
    for path, content in old.items():
        path.write_bytes(content)
    assert "PV102" in json.dumps(answer("verify", tree.package, code=1))
    assert f"rm {cache}" in run("verify", tree.package, code=1).stdout.replace("\n", " ")
    for path in old:
        path.unlink()
    assert "PV102" not in run("verify", tree.package, code=0).stdout


@pytest.mark.usefixtures("patch_folder")
@pytest.mark.parametrize("where", ["behind a link", "below another folder"])
def test_verify_reports_byte_code_that_a_write_does_not_reach(
    tree: CheckoutTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    if where == "behind a link":
        compiled(tree)
        cache = (tree.package / MIRROR).parent / "__pycache__"
        cache.rename(elsewhere)
        cache.symlink_to(elsewhere)
    else:
        monkeypatch.setattr(sys, "pycache_prefix", str(elsewhere))
        compiled(tree)
    run("apply", tree.package)
    checks = {each["check"]: each for each in answer("verify", tree.package, code=1)["checks"]}
    found = [check for check in checks["byte-code"]["findings"] if check["file"] == MIRROR]
    assert len(found) == 3, "one for each level of optimisation"
    assert all(f"Python 3.{sys.version_info.minor} does not compare" in each["message"] for each in found)


@pytest.mark.usefixtures("patch_folder")
def test_a_commit_leaves_none_in_the_checkout(checkout: CheckoutTree) -> None:
    (checkout.root / ".git/info/exclude").write_text("__pycache__/\n")
    git(checkout.root, "config", "user.name", "A Person")
    git(checkout.root, "config", "user.email", "person@example.com")
    compiled(checkout)
    run("apply", checkout.root, "--commit")
    assert not cached(checkout, MIRROR)
