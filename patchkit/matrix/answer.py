"""The types of a matrix: its rows, cells and verification results, which are also its JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from patchkit.plan.cache import CachedStatus  # noqa: TC001  # read when an answer is decoded
from patchkit.plan.status import LEFT_OUT, OPT_IN, State, label_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from patchkit.plan.status import PatchStatus


class Look(NamedTuple):
    """How a cell is shown: its mark, and what the mark means."""

    mark: str
    words: str


LOOKS: dict[str, Look] = {
    State.APPLIED: Look(">", "applied by patchkit"),
    State.EDITED: Look("*", "applied, and edited since"),
    State.UPSTREAM: Look("=", "upstream's own"),
    State.UNKNOWN: Look("?", "in place, by whom is unknown"),
    State.PENDING: Look("+", "would apply"),
    State.PARTIAL: Look("~", "would apply in part"),
    State.CONFLICT: Look("!", "in conflict"),
    State.NOT_APPLICABLE: Look("-", "not applicable: lacks the code that the patch changes"),
    OPT_IN: Look("o", "opt-in: applied only by name"),
    LEFT_OUT: Look("x", "left out by the ref's configuration"),
}
"""How each label is shown."""


class StuckEdit(msgspec.Struct, frozen=True):
    """An edit in conflict: its location and the reason."""

    edit: str
    file: str
    site: str
    reason: str


class Cell(msgspec.Struct, frozen=True):
    """One patch on one ref: its state and reason; ``left_out`` is the reason if the ref leaves it out.

    ``opt_in`` is whether the ref applies it only by name.
    """

    patch: str
    state: str
    reason: str = ""
    conflicts: tuple[StuckEdit, ...] = ()
    left_out: str = ""
    opt_in: bool = False

    @property
    def label(self) -> str:
        """What the state is called in every command."""
        return label_of(self.state, opt_in=self.opt_in, left_out=self.left_out)


class Verified(msgspec.Struct, frozen=True):
    """Whether the tree verifies with every patch that fits applied; ``failed`` lists the failed checks."""

    passed: bool
    failed: tuple[str, ...] = ()


class StateResult(msgspec.Struct, frozen=True):
    """The result for one state of the files: a status for each patch, or an error; ``state`` identifies the state."""

    patches: tuple[CachedStatus, ...] = ()
    error: str = ""
    state: str = ""


class PatchDiff(msgspec.Struct, frozen=True):
    """The diff of one patch in one file, after the patches before it."""

    patch: str
    file: str
    text: str


class PatchRow(msgspec.Struct, frozen=True):
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
    rows: tuple[PatchRow, ...]
    states: int
    examined: int
    seconds: float


def by_group(matrix: Matrix, groups: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the patches of each group of a matrix; ``groups`` has that of a patch, its own id if it is missing."""
    rows: dict[str, list[str]] = {}
    for patch in matrix.patches:
        rows.setdefault(groups.get(patch, patch), []).append(patch)
    return {name: tuple(patches) for name, patches in rows.items()}


def labels_of(row: PatchRow, patches: Collection[str]) -> tuple[str, ...]:
    """Return the labels that these patches have on a ref, each once, in the order of the legend."""
    labels = {cell.label for cell in row.patches if cell.patch in patches}
    return tuple(label for label in LOOKS if label in labels)


def cell_of(status: PatchStatus) -> Cell:
    """Return a status as a cell."""
    conflicts = tuple(
        StuckEdit(edit.name, edit.file, edit.site, edit.reason)
        for edit in status.edits
        if edit.state.value == "conflict"
    )
    patch = status.patch
    return Cell(patch.id, status.state.value, status.reason, conflicts, patch.left_out, patch.opt_in)
