"""Print a matrix as text: a line for each ref, a mark for each patch, then each conflict with its refs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.findings.plural import counted
from patchkit.findings.printable import escaped, printable
from patchkit.matrix.answer import in_order, is_left_out
from patchkit.plan.status import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from patchkit.matrix.answer import Cell, Matrix, Row, StuckEdit

_MARKS = {
    State.APPLIED: (">", "green", "applied by patchkit"),
    State.UPSTREAM: ("=", "green", "upstream's own"),
    State.UNKNOWN: ("?", "green", "in place, by whom is unknown"),
    State.PENDING: ("+", "yellow", "would apply"),
    State.PARTIAL: ("~", "yellow", "would apply in part"),
    State.CONFLICT: ("!", "red", "in conflict"),
    State.NOT_APPLICABLE: ("-", "dim", "not applicable"),
}
_LEFT_OUT = ("x", "dim", "left out by the ref's configuration")
_NONE = (" ", "dim", "")
"""The mark of a patch that only another ref has."""
_SHOWN = 3


def show(matrix: Matrix, console: Console) -> None:
    """Print the matrix."""
    width = max((len(_short(row)) for row in matrix.rows), default=0)
    for number, patch in enumerate(matrix.patches, 1):
        console.print(f"{number:3}  {escaped(patch)}")
    numbers = "".join(f"{number:3}" for number in range(1, len(matrix.patches) + 1))
    console.print(f"\n{'':{width}} {numbers}")
    for row in matrix.rows:
        console.print(f"{escaped(_short(row).ljust(width))} {_marks(row, matrix.patches)}")
    marks = {_mark(cell) for row in matrix.rows for cell in row.patches}
    legend = {
        mark: words for mark, style, words in (*_MARKS.values(), _LEFT_OUT) if (mark, style, words) in marks
    }
    console.print("\n" + "  ".join(f"{mark} {words}" for mark, words in legend.items()))
    for (patch, site), refs in _conflicts(matrix).items():
        others = f" and {len(refs) - _SHOWN} more" if len(refs) > _SHOWN else ""
        console.print(f"\n[red]![/] {escaped(patch)} on {escaped(', '.join(refs[:_SHOWN]))}{others}")
        console.print(f"    {escaped(f'{site.file}: {site.site}: {site.edit}: {site.reason}')}")
    console.print(
        f"\n{counted(len(matrix.rows), 'ref')}, {counted(matrix.states, 'distinct state')}, "
        f"{matrix.examined} of them examined now, {matrix.seconds:.1f} s."
    )


def _short(row: Row) -> str:
    return row.ref[:12] if row.ref == row.commit else printable(row.ref.removeprefix("refs/heads/"))


def _mark(cell: Cell) -> tuple[str, str, str]:
    return _LEFT_OUT if is_left_out(cell) else _MARKS[State(cell.state)]


def _marks(row: Row, patches: Sequence[str]) -> str:
    if row.error:
        return f"  [red]{escaped(row.error)}[/]"
    cells = (_mark(cell) if cell else _NONE for cell in in_order(row, patches))
    marks = "".join(f"  [{style}]{mark}[/]" for mark, style, _ in cells)
    if row.verified is None:
        return marks
    return f"{marks}  " + (
        "[green]verified[/]"
        if row.verified.passed
        else f"[red]fails: {escaped('; '.join(row.verified.failed))}[/]"
    )


def _conflicts(matrix: Matrix) -> dict[tuple[str, StuckEdit], list[str]]:
    found: dict[tuple[str, StuckEdit], list[str]] = {}
    for row in matrix.rows:
        for cell in row.patches:
            for site in () if is_left_out(cell) else cell.conflicts:
                found.setdefault((cell.patch, site), []).append(_short(row))
    return found
