"""A tree whose workers have the overlap hook's former check, from their constructors, becomes as one patched today."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest
from support import former
from support.releases import answer, fingerprints, run, states_in, without_record

from patchkit.patchset import load

if TYPE_CHECKING:
    from pathlib import Path

    from support.releases import Releases

PATCH = "pk-overlap-hook"


def apply_former(tree: Path, folder: Path, *patches: str) -> None:
    """Apply patches of which the overlap hook's checks where it first did."""
    shutil.copytree(load.BUILT_IN, folder)
    path = folder / PATCH / "patch.toml"
    now = path.read_text(encoding="utf-8")
    path.write_text(re.split(r"(?m)^(?=\[edit\.start\])", now)[0] + former.start(), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "BUILT_IN", folder)
        run("apply", tree, *patches)


def checks(tree: Path) -> set[str]:
    """Return the files of a tree that have the former check."""
    return {path.name for path in tree.rglob("*.py") if "require_overlap_hook(" in path.read_text("utf-8")}


@pytest.mark.parametrize(
    ("version", "patches"),
    [
        ("0.5.12.post1", (PATCH,)),
        pytest.param("0.5.14", (PATCH,), marks=pytest.mark.sweep),
        pytest.param("0.5.14", (), marks=pytest.mark.sweep, id="0.5.14-all"),
    ],
)
def test_the_former_check_goes_with_a_new_apply_and_what_is_then_reverted_is_the_release(
    releases: Releases, tmp_path: Path, version: str, patches: tuple[str, ...]
) -> None:
    tree = releases.copy(version, tmp_path / "tree").root
    pristine = fingerprints(tree)
    apply_former(tree, tmp_path / "former", *patches)
    workers = {f"{name}_worker_v2.py" for name in ("eagle", "multi_layer_eagle", "standalone")}
    assert checks(tree) >= workers
    assert states_in(answer("status", tree))[PATCH] == "partial"
    run("apply", tree, *patches)
    assert checks(tree) == set()
    assert states_in(answer("status", tree))[PATCH] == "applied"
    run("revert", tree)
    assert without_record(fingerprints(tree)) == pristine
