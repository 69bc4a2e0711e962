"""Write a matrix as a single HTML page: a heat map, a row a group of patches, that opens to its patches.

A cell of a patch opens to its title, reason, conflict or diff.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit import __version__
from patchkit.findings.printable import page_template
from patchkit.matrix.answer import LOOKS, by_group, labels_of
from patchkit.plan.conflict import Conflict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.matrix.answer import Cell, Matrix, PatchDiff


@dataclass(frozen=True)
class _Detail:
    """The content that a cell opens; cells with the same content share it."""

    cell: Cell
    diffs: tuple[PatchDiff, ...]
    conflicts: tuple[Conflict, ...]


def document(
    matrix: Matrix,
    groups: Mapping[str, str],
    titles: Mapping[str, str],
    diffs: Mapping[str, Sequence[PatchDiff]],
    conflicts: Mapping[str, Sequence[Conflict]],
    *,
    date: str,
) -> str:
    """Return the page; ``diffs`` and ``conflicts`` are those of each state.

    ``groups`` has the row that each patch is part of, its own if it is missing, and ``titles`` what they are about.
    """
    details: dict[_Detail, str] = {}
    opened: dict[tuple[str, str], str] = {}
    shown = {row.state: row for row in matrix.rows if row.patches}
    for state, row in shown.items():
        for cell in row.patches:
            diffs_of = tuple(diff for diff in diffs.get(state, ()) if diff.patch == cell.patch)
            sites = tuple(
                conflict
                for conflict in conflicts.get(state, ())
                if conflict.patch == cell.patch and conflict.edit
            )
            sites = sites or tuple(
                Conflict(cell.patch, site.edit, "", "", site.file, site.site, site.reason)
                for site in cell.conflicts
            )
            opened[state, cell.patch] = details.setdefault(
                _Detail(cell, diffs_of, sites), f"d{len(details) + 1}"
            )
    counts = Counter(cell.label for row in matrix.rows for cell in row.patches)
    return page_template(__package__).render(
        matrix=matrix,
        titles=titles,
        looks=LOOKS,
        groups=by_group(matrix, groups),
        labels_of=labels_of,
        cells=[{cell.patch: cell for cell in row.patches} for row in matrix.rows],
        counts=counts,
        details=details,
        opened=opened,
        date=date,
        version=__version__,
    )
