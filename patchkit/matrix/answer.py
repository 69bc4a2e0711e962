"""The types of a matrix: its rows, cells and verification results, which are also its JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from patchkit.plan.status import IN_PLACE, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.plan.status import PatchStatus


class StuckEdit(msgspec.Struct, frozen=True):
    """An edit in conflict: its location and the reason."""

    edit: str
    file: str
    site: str
    reason: str


class Cell(msgspec.Struct, frozen=True):
    """One patch on one ref: its state and reason; ``left_out`` is the reason if the ref leaves it out."""

    patch: str
    state: str
    reason: str = ""
    conflicts: tuple[StuckEdit, ...] = ()
    left_out: str = ""


class Verified(msgspec.Struct, frozen=True):
    """Whether the tree verifies with every patch that fits applied; ``failed`` lists the failed checks."""

    passed: bool
    failed: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """The result for one state of the files: a cell for each patch, or an error; ``state`` identifies the state."""

    cells: tuple[Cell, ...] = ()
    error: str = ""
    state: str = ""


class PatchDiff(msgspec.Struct, frozen=True):
    """The diff of one patch in one file, after the patches before it."""

    patch: str
    file: str
    text: str


class Row(msgspec.Struct, frozen=True):
    """One ref: its commit, and a cell for each patch or an error; ``state`` identifies the state of its files."""

    ref: str
    commit: str
    state: str = ""
    patches: tuple[Cell, ...] = ()
    error: str = ""
    verified: Verified | None = None


class Matrix(msgspec.Struct, frozen=True):
    """All refs, the number of distinct states among them, and the number of states examined in this run."""

    repository: str
    patches: tuple[str, ...]
    rows: tuple[Row, ...]
    states: int
    examined: int
    seconds: float


def is_left_out(cell: Cell) -> bool:
    """Return whether a ref's configuration leaves out a patch that the ref does not have."""
    return bool(cell.left_out) and State(cell.state) not in IN_PLACE


def in_order(row: Row, patches: Sequence[str]) -> tuple[Cell | None, ...]:
    """Return the cells of a row for these patches, None for a patch that the ref does not load."""
    cells = {cell.patch: cell for cell in row.patches}
    return tuple(map(cells.get, patches))


def cell_of(status: PatchStatus) -> Cell:
    """Return a status as a cell."""
    conflicts = tuple(
        StuckEdit(edit.name, edit.file, edit.site, edit.reason)
        for edit in status.edits
        if edit.state.value == "conflict"
    )
    return Cell(status.patch.id, status.state.value, status.reason, conflicts, status.patch.left_out)
