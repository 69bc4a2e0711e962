"""Write a matrix as a single HTML page: a heat map whose cells open to the conflict or the diff."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2

from patchkit import __version__
from patchkit.findings.printable import in_page
from patchkit.matrix.answer import in_order, is_left_out
from patchkit.plan.conflict import Conflict
from patchkit.plan.status import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.matrix.answer import Cell, Matrix, PatchDiff

_LEFT_OUT = "left-out"
_MARKS: dict[str, str] = {
    State.APPLIED: ">",
    State.UPSTREAM: "=",
    State.UNKNOWN: "?",
    State.PENDING: "+",
    State.PARTIAL: "~",
    State.CONFLICT: "!",
    State.NOT_APPLICABLE: "-",
    _LEFT_OUT: "x",
}
_WORDS: dict[str, str] = {
    State.APPLIED: "applied by patchkit",
    State.UPSTREAM: "upstream's own",
    State.UNKNOWN: "in place, by whom is unknown",
    State.PENDING: "would apply",
    State.PARTIAL: "would apply in part",
    State.CONFLICT: "conflict",
    State.NOT_APPLICABLE: "not applicable",
    _LEFT_OUT: "left out by the ref's configuration",
}


@dataclass(frozen=True)
class _Detail:
    """The content that a cell opens; cells with the same content share it."""

    cell: Cell
    diffs: tuple[PatchDiff, ...]
    conflicts: tuple[Conflict, ...]


def document(
    matrix: Matrix,
    titles: Mapping[str, str],
    diffs: Mapping[str, Sequence[PatchDiff]],
    conflicts: Mapping[str, Sequence[Conflict]],
    date: str,
) -> str:
    """Return the page; ``titles`` are the patches' titles, ``diffs`` and ``conflicts`` those of each state."""
    details: dict[_Detail, str] = {}
    opened: dict[tuple[str, str], str] = {}
    shown = {row.state: row for row in matrix.rows if row.patches}
    for state, row in shown.items():
        for cell in row.patches:
            found = tuple(diff for diff in diffs.get(state, ()) if diff.patch == cell.patch)
            sites = tuple(each for each in conflicts.get(state, ()) if each.patch == cell.patch and each.edit)
            sites = sites or tuple(
                Conflict(cell.patch, site.edit, "", "", site.file, site.site, site.reason)
                for site in cell.conflicts
            )
            opened[state, cell.patch] = details.setdefault(
                _Detail(cell, found, sites), f"d{len(details) + 1}"
            )
    counts = {
        name: sum(_shown(cell) == name for row in matrix.rows for cell in row.patches) for name in _MARKS
    }
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=in_page,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("page.html.j2").render(
        matrix=matrix,
        titles=titles,
        marks=_MARKS,
        words=_WORDS,
        shown=_shown,
        in_order=lambda row: in_order(row, matrix.patches),
        counts=counts,
        details=details,
        opened=opened,
        date=date,
        version=__version__,
    )


def _shown(cell: Cell) -> str:
    return _LEFT_OUT if is_left_out(cell) else State(cell.state).value
