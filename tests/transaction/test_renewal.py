"""Patches of an older form are taken back in memory: which go with them, and what one write makes of the files."""

from __future__ import annotations

import pytest

from patchkit.errors import ConflictError
from patchkit.patchset.patch import Patch
from patchkit.plan.record import AppliedFile, AppliedPatch, Record
from patchkit.plan.status import FileChange, PatchStatus, Plan, State
from patchkit.transaction.renewal import Renewal, _with_neighbours
from patchkit.tree.tree import MemoryTree

TAKEN = Renewal(("one", "two"), {"a.py": (b"old\n", b"base\n"), "b.py": (b"old\n", None)}, Record(), ())


def plan(state: State, *changes: FileChange, name: str = "one", left_out: bool = False) -> Plan:
    patch = Patch(id=name, title="", why="", risk="", verify="", edits=())
    status = PatchStatus(patch, state, (), "it does not fit")
    return Plan(MemoryTree({}), (status,), changes, left_out={name: "why"} if left_out else {})


def test_a_plan_changes_the_files_as_they_are() -> None:
    made = FileChange("a.py", b"base\n", b"new\n", ("one",)), FileChange("c.py", b"c\n", b"d\n", ("one", "x"))
    found = TAKEN.changing(plan(State.PENDING, *made))
    assert found.changes == (
        FileChange("a.py", b"old\n", b"new\n", ("one",)),
        FileChange("b.py", b"old\n", None, ()),
        FileChange("c.py", b"c\n", b"d\n", ("one", "x")),
    )
    assert TAKEN.contents == {"a.py": b"base\n", "b.py": None}


@pytest.mark.parametrize(
    ("made", "is_refused"),
    [
        (plan(State.CONFLICT), True),
        (plan(State.PENDING, left_out=True), True),
        (plan(State.APPLIED), False),
        (plan(State.PARTIAL), False),
        (plan(State.CONFLICT, name="other"), False),
        (plan(State.PENDING, name="other", left_out=True), False),
    ],
)
def test_a_patch_that_was_taken_back_has_to_be_made_again(made: Plan, is_refused: bool) -> None:
    if not is_refused:
        assert [change.file for change in TAKEN.changing(made).changes] == ["a.py", "b.py"]
        return
    with pytest.raises(
        ConflictError, match=r"one: the tree has an older form, .*\(it does not fit\): patchkit revert"
    ):
        TAKEN.changing(made)


def written(
    known: Record, names: str, files: str, requires: tuple[str, ...] = (), ported: bool = False
) -> Record:
    before = known.files
    changes = {
        file: AppliedFile(
            before[file].applied if file in before else None, (file + names)[:1] * 40, (*names,)
        )
        for file in files
    }
    return known.with_applied(changes, [AppliedPatch(name, requires, ()) for name in names], ported=ported)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("a", "ab"),
        ("b", "ab"),
        ("c", "cde"),
        ("d", "d"),
        ("e", "cde"),
        ("f", "f"),
        ("ad", "abd"),
        ("p", "p"),
    ],
)
def test_patches_of_its_files_and_those_that_need_it_go_with_an_older_form(names: str, found: str) -> None:
    known = written(Record(), "ab", "x")
    known = written(known, "c", "y")
    known = written(known, "d", "z", requires=("c",))
    known = written(known, "e", "wy")
    known = written(known, "f", "v", requires=())
    known = written(known, "p", "x", ported=True)
    assert _with_neighbours(frozenset(names), known) == {*found}
