"""A patch that creates a file: planned, applied, recognised, extended by another patch, and reverted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.toys import add_patch, everything

from patchkit import api
from patchkit.patchset import load
from patchkit.plan.status import State

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree

NEW = "srt/layers/fresh/kernel.py"
FILE = f"""\
[edit.kernel]
kind = "new-file"
why = "one launch for all of it"
at = "{NEW}"
code = '''
import math


def fill(rows):
    return math.prod(rows)
'''
"""
USE = """\
[edit.use]
kind = "method"
why = "it fills by one launch"
at = "srt/managers/mirror.py::Mirror"
imports = ["from sglang.srt.layers.fresh.kernel import fill"]
code = "def fill(self, rows): return fill(rows)"
"""
GROWN = f"""\
[edit.grown]
kind = "parameter"
why = "some rows are wider"
at = "{NEW}::fill"
code = "width=1"
"""


@pytest.fixture
def patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PatchSet:
    folder = tmp_path / "patches"
    add_patch(folder, "t-file", FILE, USE)
    add_patch(folder, "t-grown", GROWN, requires='["t-file"]')
    monkeypatch.setattr(load, "BUILT_IN", folder)
    return load.patches()


def states(tree: CheckoutTree, patches: PatchSet) -> dict[str, State]:
    return {status.patch.id: status.state for status in api.status(tree, patches)}


def test_file_is_made_recognised_and_taken_away(checkout: CheckoutTree, patches: PatchSet) -> None:
    before = everything(checkout.root)
    assert states(checkout, patches) == {"t-file": State.PENDING, "t-grown": State.PENDING}
    (made,) = (change for change in api.diff(checkout, patches).changes if change.file == NEW)
    assert made.before is None
    api.apply(checkout, patches)
    text = (checkout.package / NEW).read_text()
    assert text.startswith("# patchkit t-file: one launch for all of it\nimport math\n")
    assert "def fill(rows, width=1):" in text
    assert states(checkout, patches) == {"t-file": State.APPLIED, "t-grown": State.APPLIED}
    assert api.diff(checkout, patches).changes == ()
    api.revert(checkout, patches)
    left = {name: content for name, content in everything(checkout.root).items() if ".patchkit" not in name}
    assert left == before


def test_file_that_grew_stays_with_the_other_patch_reverted(
    checkout: CheckoutTree, patches: PatchSet
) -> None:
    api.apply(checkout, patches)
    api.revert(checkout, patches, ["t-grown"])
    assert "def fill(rows):" in (checkout.package / NEW).read_text()


def test_file_of_that_name_with_the_same_in_it_is_in_place(checkout: CheckoutTree, patches: PatchSet) -> None:
    (checkout.package / NEW).parent.mkdir(parents=True)
    (checkout.package / NEW).write_text("def fill(rows):\n    return 1\n")
    status = api.status(checkout, patches)[0]
    assert status.edits[0].state is State.UNKNOWN
    assert all(change.file != NEW or change.before for change in api.diff(checkout, patches).changes)


def test_file_of_that_name_with_something_else_is_a_conflict(
    checkout: CheckoutTree, patches: PatchSet
) -> None:
    (checkout.package / NEW).parent.mkdir(parents=True)
    (checkout.package / NEW).write_text("def empty(rows):\n    return 1\n")
    status = api.status(checkout, patches)[0]
    assert status.state is State.CONFLICT
    assert "the file exists, but does not define fill" in status.reason
