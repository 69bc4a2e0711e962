"""Files of version 0.1 are still read, and any other content of a ledger or journal is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.altered import altered_json
from support.toys import (
    APPLIED,
    COPIES,
    CRLF,
    DEPTH,
    MIRROR,
    SOURCES,
    STRIDE,
    apply,
    contents,
    edit,
    everything,
    revert_patches,
    rewriting,
    toy,
)

from patchkit.errors import PatchkitError, TreeError
from patchkit.transaction import formats
from patchkit.transaction.ledger import Ledger
from patchkit.transaction.recover import Recovery, recover
from patchkit.transaction.revert import RevertResult, recorded
from patchkit.transaction.swap import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.patchset.patch import Patch
    from patchkit.tree.tree import CheckoutTree

DATA = Path(__file__).parent / "data"
LEDGER, JOURNAL = DATA / "ledger-0.1.json", DATA / "journal-0.1.json"
ORIGINALS = {file: SOURCES[file] for file in APPLIED}


def patched_by_0_1(tree: CheckoutTree) -> None:
    """Leave a tree as version 0.1 did, which knew no marker."""
    folder = tree.package / ".patchkit"
    (folder / "objects").mkdir(parents=True)
    (folder / ".gitignore").write_text("*\n")
    (folder / "lock").touch()
    (folder / "ledger.json").write_bytes(LEDGER.read_bytes())
    for file, applied in APPLIED.items():
        for text in (applied, SOURCES[file]):
            (folder / "objects" / digest_of(text)).write_bytes(text)
        (tree.package / file).write_bytes(applied)


def test_tree_of_version_0_1_is_reverted(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    patched_by_0_1(tree)
    assert recorded(tree) == ("copies", "depth", "guard", "stride")
    assert revert_patches(tree) == RevertResult(
        ("copies", "depth", "guard", "stride"), tuple(sorted(APPLIED))
    )
    assert everything(tree.root) == before


def test_tree_of_version_0_1_is_reverted_in_part_and_patched_on(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    patched_by_0_1(tree)
    revert_patches(tree, STRIDE)
    assert recorded(tree) == ("copies", "depth", "guard")
    apply(tree, STRIDE)
    assert contents(tree) == APPLIED
    revert_patches(tree)
    assert everything(tree.root) == before


def test_write_that_version_0_1_left_behind_is_finished(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    patched_by_0_1(tree)
    folder = tree.package / ".patchkit"
    (folder / "ledger.json").rename(folder / ".ledger.json.patchkit")
    (folder / "journal.json").write_bytes(JOURNAL.read_bytes())
    for file in (*APPLIED,)[1:]:
        path = tree.package / file
        path.write_bytes(SOURCES[file])
        path.with_name(f".{path.name}.patchkit").write_bytes(APPLIED[file])
    assert recover(tree) == Recovery("finished", tuple(APPLIED))
    assert contents(tree) == APPLIED
    revert_patches(tree)
    assert everything(tree.root) == before


def test_write_that_version_0_1_left_before_its_contents_is_rolled_back(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    folder = tree.package / ".patchkit"
    (folder / "objects").mkdir(parents=True)
    (folder / "journal.json").write_bytes(JOURNAL.read_bytes())
    assert recover(tree).action == "rolled-back"
    assert everything(tree.root) == before


def test_edit_after_a_write_that_never_began_is_no_obstacle_to_rolling_back(tree: CheckoutTree) -> None:
    folder = tree.package / ".patchkit"
    (folder / "objects").mkdir(parents=True)
    (folder / "journal.json").write_bytes(JOURNAL.read_bytes())
    edit(tree, MIRROR, b"class", b"# mine\nclass")
    assert recover(tree).action == "rolled-back"
    assert contents(tree) == ORIGINALS | {MIRROR: SOURCES[MIRROR].replace(b"class", b"# mine\nclass")}


@given(seed=st.integers(0, 2**32))
def test_any_ledger_and_journal_is_read_or_refused(seed: int) -> None:
    for path, read in ((LEDGER, formats.read_ledger), (JOURNAL, formats.read_journal)):
        with suppress(formats.DamagedError, formats.NewerError):
            assert formats.encoded(read(altered_json(path.read_bytes(), seed)))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("name", ["ledger.json", "journal.json"])
def test_odd_ledger_or_journal_ends_no_act_otherwise_than_with_a_sentence(
    tree: CheckoutTree, tmp_path: Path, seed: int, name: str
) -> None:
    patched_by_0_1(tree)
    source = LEDGER if name == "ledger.json" else JOURNAL
    (tree.package / ".patchkit" / name).write_bytes(altered_json(source.read_bytes(), seed))
    (tmp_path / "x").write_text("outside")
    known = set(tree.package.rglob("*.py"))
    acts: tuple[Callable[[CheckoutTree], object], ...] = (recover, revert_patches, apply)
    for act in acts:
        with suppress(PatchkitError):
            act(tree)
    assert (tmp_path / "x").read_text() == "outside"
    assert known <= set(tree.package.rglob("*.py"))


def test_ledger_says_its_format() -> None:
    assert json.loads(formats.encoded(Ledger()))["format"] == 2


@pytest.mark.parametrize("name", ["srt/caf\udce9.py", "srt/a\nb.py", "srt/a\x1b[2Jb.py", "srt/a\x7fb.py"])
def test_name_that_no_ledger_can_contain_is_refused(tree: CheckoutTree, name: str) -> None:
    (tree.package / name).write_bytes(b"class Odd:\n    x = 1\n")
    before = everything(tree.root)
    with pytest.raises(TreeError, match="is not a valid file name"):
        apply(tree, toy("odd", rewriting("x", "srt/x.py::Odd", "x = 1", "x = 2")))
    assert everything(tree.root) == before


@pytest.mark.parametrize("patch", [COPIES, DEPTH])
def test_odd_object_is_a_sentence(tree: CheckoutTree, patch: Patch) -> None:
    apply(tree, patch)
    edit(tree, MIRROR, b"class", b"# mine\nclass")
    for path in (tree.package / ".patchkit" / "objects").iterdir():
        path.unlink()
        path.symlink_to(tree.package / CRLF)
    with pytest.raises(TreeError):
        revert_patches(tree)
