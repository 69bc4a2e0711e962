"""The state of a patch of which the tree has conflict markers, or had some that a person removed."""

from __future__ import annotations

import pytest

from patchkit.patchset.patch import Patch
from patchkit.plan.markers import MarkedConflict
from patchkit.plan.status import EditStatus, PatchStatus, State
from patchkit.transaction.conflicts import (
    UNRECORDED,
    advice,
    placeholder,
    recording,
    with_conflicts,
    with_unrecorded,
)

FILE, OTHER = "srt/a.py", "srt/b.py"
FIRST, SECOND = MarkedConflict("one", "first", 3, 9, 1), MarkedConflict("two", "second", 0, 6, 1)


def patch(name: str) -> Patch:
    return Patch(id=name, title=name, why="", risk="", verify="", edits=())


def status(name: str, state: State, *edits: tuple[str, str, State]) -> PatchStatus:
    return PatchStatus(
        patch(name), state, tuple(EditStatus(edit, file, "f", of_edit) for edit, file, of_edit in edits)
    )


ONE = status("one", State.APPLIED, ("first", FILE, State.PENDING), ("last", FILE, State.APPLIED))
TWO = status("two", State.PENDING, ("second", OTHER, State.PENDING))


def shown(found: tuple[PatchStatus, ...]) -> list[tuple[str, State, list[tuple[str, str, State, str]]]]:
    return [
        (each.patch.id, each.state, [(e.name, e.file, e.state, e.reason) for e in each.edits])
        for each in found
    ]


def test_an_edit_with_markers_is_a_conflict_with_its_line_and_what_to_type() -> None:
    found = with_conflicts([ONE, TWO], {FILE: (FIRST,)})
    assert shown(found) == [
        (
            "one",
            State.CONFLICT,
            [
                ("first", FILE, State.CONFLICT, f"line 4: {advice(FIRST)}"),
                ("last", FILE, State.APPLIED, ""),
            ],
        ),
        *shown((TWO,)),
    ]
    assert "patchkit resolve one first; patchkit resolve --give-up one first" in advice(FIRST)


def test_an_edit_that_the_loaded_patch_lacks_and_that_of_a_port_are_conflicts_too() -> None:
    found = with_conflicts([TWO], {FILE: (FIRST,), OTHER: (SECOND,)})
    assert [(each.patch.id, each.state) for each in found] == [
        ("two", State.CONFLICT),
        ("one", State.CONFLICT),
    ]
    assert [(e.name, e.file, e.site) for e in found[1].edits] == [("first", FILE, "")]
    assert found[1].patch == placeholder("one")
    assert [(e.name, e.file, e.site) for e in found[0].edits] == [("second", OTHER, "f")]
    elsewhere = with_conflicts([TWO], {FILE: (SECOND,)})
    assert [(e.name, e.file, e.state) for e in elsewhere[0].edits] == [
        ("second", OTHER, State.PENDING),
        ("second", FILE, State.CONFLICT),
    ]
    assert with_conflicts([ONE, TWO], {}) == (ONE, TWO)


CONFLICTING = status("one", State.CONFLICT, ("first", FILE, State.CONFLICT), ("last", FILE, State.APPLIED))


@pytest.mark.parametrize(
    ("before", "unrecorded", "reasons"),
    [
        (CONFLICTING, ("one", "first", FILE), [UNRECORDED, ""]),
        (CONFLICTING, ("one", "last", FILE), ["", ""]),
        (CONFLICTING, ("one", "other", OTHER), ["", "", UNRECORDED]),
        (CONFLICTING, ("two", "first", FILE), ["", ""]),
        (ONE, ("one", "first", FILE), ["", ""]),
        (ONE, ("one", "other", OTHER), ["", ""]),
    ],
)
def test_the_reason_of_a_conflict_whose_markers_were_removed_is_what_to_run(
    before: PatchStatus, unrecorded: tuple[str, str, str], reasons: list[str]
) -> None:
    (found,) = with_unrecorded([before], [unrecorded])
    said = f"{UNRECORDED}: {recording(unrecorded[0], unrecorded[1])}"
    assert [edit.reason for edit in found.edits] == [said if each else "" for each in reasons]
    assert found.state is before.state
    assert [edit.state for edit in found.edits[:2]] == [edit.state for edit in before.edits]
    assert "patchkit resolve one first, or patchkit resolve --accept one first" in recording("one", "first")
