"""A tree that patchkit 0.1 patched, with the ledger that it wrote: its patch is still applied, and can be reverted."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import toys
from support.toys import CRLF, MIRROR, SOURCES, add_patch, attribute, everything

from patchkit import api
from patchkit.errors import TreeError
from patchkit.patchset import load
from patchkit.plan.status import State

if TYPE_CHECKING:
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree

LEDGER = Path(toys.__file__).with_name("ledger-0.1.json")
PATCHED = {
    MIRROR: SOURCES[MIRROR].replace(
        b"    copies = 0\n", b"    # patchkit t-flag: toy\n    needs_host = False\n\n    copies = 0\n"
    ),
    CRLF: SOURCES[CRLF].replace(
        b"    flag = False\r\n",
        b"    # patchkit t-flag: toy\r\n    needs_device = True\r\n\r\n    flag = False\r\n",
    ),
}


@pytest.fixture
def patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PatchSet:
    """The patch as its file says it now."""
    flags = (
        attribute(MIRROR, "Mirror", "needs_host = False"),
        attribute(CRLF, "Backend", "needs_device = True"),
    )
    add_patch(tmp_path / "patches", "t-flag", *flags)
    monkeypatch.setattr(load, "BUILT_IN", tmp_path / "patches")
    return load.patches()


@pytest.fixture
def patched(tree: CheckoutTree) -> CheckoutTree:
    """The tiny tree as 0.1 left it; the contents in its store are named by their digests."""
    store = tree.package / ".patchkit"
    (store / "objects").mkdir(parents=True)
    (store / ".gitignore").write_text("*\n")
    (store / "lock").touch()
    (store / "ledger.json").write_bytes(LEDGER.read_bytes())
    for file, after in PATCHED.items():
        for content in (SOURCES[file], after):
            (store / "objects" / hashlib.sha256(content).hexdigest()).write_bytes(content)
        (tree.package / file).write_bytes(after)
    return tree


def test_the_ledger_names_the_contents_that_the_tree_has() -> None:
    (layer,) = json.loads(LEDGER.read_text())["layers"]
    named = {file: (entry["original"], entry["applied"]) for file, entry in layer["files"].items()}
    assert named == {
        file: tuple(hashlib.sha256(each).hexdigest() for each in (SOURCES[file], after))
        for file, after in PATCHED.items()
    }


def test_its_patch_is_applied(patched: CheckoutTree, patches: PatchSet) -> None:
    assert [status.state for status in api.status(patched, patches)] == [State.APPLIED]
    assert api.diff(patched, patches).changes == ()


def test_its_patch_goes_and_leaves_the_bytes_that_were_there(
    patched: CheckoutTree, patches: PatchSet
) -> None:
    api.revert(patched, patches)
    assert {file: patched.read(file) for file in PATCHED} == {file: SOURCES[file] for file in PATCHED}
    assert [status.state for status in api.status(patched, patches)] == [State.PENDING]


def test_what_somebody_wrote_since_stays(patched: CheckoutTree, patches: PatchSet) -> None:
    path = patched.package / MIRROR
    path.write_bytes(path.read_bytes().replace(b"depth = 1", b"depth = 9"))
    api.revert(patched, patches)
    assert patched.read(MIRROR) == SOURCES[MIRROR].replace(b"depth = 1", b"depth = 9")


def test_a_patch_on_top_of_it_goes_alone(patched: CheckoutTree, patches: PatchSet, tmp_path: Path) -> None:
    add_patch(tmp_path / "patches", "t-more", attribute(MIRROR, "Mirror", "guard = 1"))
    api.apply(patched, load.patches(), ["t-more"])
    api.revert(patched, load.patches(), ["t-more"])
    assert patched.read(MIRROR) == PATCHED[MIRROR]


def test_without_its_contents_nothing_is_written(patched: CheckoutTree, patches: PatchSet) -> None:
    for content in (patched.package / ".patchkit" / "objects").iterdir():
        content.unlink()
    before = everything(patched.package / "srt")
    with pytest.raises(TreeError):
        api.revert(patched, patches)
    assert everything(patched.package / "srt") == before
