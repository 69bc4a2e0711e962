"""Print a matrix as text: a line for each ref, a mark for each patch, then each conflict with its refs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.findings.plural import counted
from patchkit.findings.printable import escaped, printable
from patchkit.matrix.answer import LOOKS, in_order
from patchkit.plan.status import LEFT_OUT, STYLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from patchkit.matrix.answer import Matrix, PatchRow, StuckEdit

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
    labels = {cell.label for row in matrix.rows for cell in row.patches}
    legend = (f"{look.mark} {look.words}" for label, look in LOOKS.items() if label in labels)
    console.print("\n" + "  ".join(legend))
    for (patch, site), refs in _conflicts(matrix).items():
        others = f" and {len(refs) - _SHOWN} more" if len(refs) > _SHOWN else ""
        console.print(f"\n[red]![/] {escaped(patch)} on {escaped(', '.join(refs[:_SHOWN]))}{others}")
        console.print(f"    {escaped(f'{site.file}: {site.site}: {site.edit}: {site.reason}')}")
    console.print(
        f"\n{counted(len(matrix.rows), 'ref')}, {counted(matrix.states, 'distinct state')}, "
        f"{matrix.examined} of them examined now, {matrix.seconds:.1f} s."
    )


def _short(row: PatchRow) -> str:
    return row.ref[:12] if row.ref == row.commit else printable(row.ref.removeprefix("refs/heads/"))


def _marks(row: PatchRow, patches: Sequence[str]) -> str:
    if row.error:
        return f"  [red]{escaped(row.error)}[/]"
    marks = "".join(
        f"  [{STYLES[cell.label]}]{LOOKS[cell.label].mark}[/]"
        if cell
        else "   "  # Only another ref has the patch.
        for cell in in_order(row, patches)
    )
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
            for site in () if cell.label == LEFT_OUT else cell.conflicts:
                found.setdefault((cell.patch, site), []).append(_short(row))
    return found
