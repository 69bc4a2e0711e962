"""What the matrix says of each ref and patch; its JSON is these structs'."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.plan.status import PatchStatus


class StuckEdit(msgspec.Struct, frozen=True):
    """An edit in conflict: where, and why."""

    edit: str
    file: str
    site: str
    reason: str


class Cell(msgspec.Struct, frozen=True):
    """One patch on one ref: its state as ``status`` spells it, and why; ``left_out`` where the ref does not want it."""

    patch: str
    state: str
    reason: str = ""
    conflicts: tuple[StuckEdit, ...] = ()
    left_out: str = ""


class Verified(msgspec.Struct, frozen=True):
    """Whether the tree verifies once everything that can be applied is; ``failed`` names each failed check."""

    passed: bool
    failed: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """What one state of the files comes to: a cell a patch, or why there is none; ``state`` names it."""

    cells: tuple[Cell, ...] = ()
    error: str = ""
    state: str = ""


class PatchDiff(msgspec.Struct, frozen=True):
    """What one patch would change in one file, after the patches before it."""

    patch: str
    file: str
    text: str


class Row(msgspec.Struct, frozen=True):
    """One ref: its commit, and the cells in the order of the patches, or an error; ``state`` names its files'."""

    ref: str
    commit: str
    state: str = ""
    patches: tuple[Cell, ...] = ()
    error: str = ""
    verified: Verified | None = None


class Matrix(msgspec.Struct, frozen=True):
    """All refs, how many distinct states they came down to, and how many of those were examined now."""

    repository: str
    patches: tuple[str, ...]
    rows: tuple[Row, ...]
    states: int
    examined: int
    seconds: float


def is_left_out(cell: Cell) -> bool:
    """Tell whether a ref does not want the patch, and does not have it either."""
    return bool(cell.left_out) and cell.state not in {"applied", "upstream"}


def in_order(row: Row, patches: Sequence[str]) -> tuple[Cell | None, ...]:
    """Return the cells of a row for these patches, None where it is another ref's own."""
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
