"""Print a matrix as text: the refs, a line for each group of patches and a column for each ref, and conflicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.findings.plural import counted
from patchkit.findings.printable import escaped, printable
from patchkit.matrix.answer import LOOKS, by_group, labels_of
from patchkit.plan.status import LEFT_OUT, STYLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from patchkit.matrix.answer import Matrix, PatchRow, StuckEdit

_SHOWN = 3
_COLOURS = {look.mark: STYLES[label] for label, look in LOOKS.items()}


def show(matrix: Matrix, groups: Mapping[str, str], console: Console) -> None:
    """Print the matrix; ``groups`` has the row that each patch is part of, its own if it is missing."""
    rows = by_group(matrix, groups)
    for number, row in enumerate(matrix.rows, 1):
        console.print(f"{number:3}  {escaped(_short(row))}{_verdict(row)}")
    marks = {
        name: ["".join(LOOKS[label].mark for label in labels_of(row, patches)) for row in matrix.rows]
        for name, patches in rows.items()
    }
    first = max(map(len, rows), default=0)
    # Room for the number of a ref, or the marks of a group whose patches differ.
    wide = 1 + max([3, len(str(len(matrix.rows))), *(len(mark) for line in marks.values() for mark in line)])
    fit = max(1, (console.width - first) // wide)
    for start in range(0, len(matrix.rows), fit):
        end = min(start + fit, len(matrix.rows))
        numbers = "".join(f"{number + 1:>{wide}}" for number in range(start, end))
        console.print(f"\n{'':{first}}{numbers}")
        for name, line in marks.items():
            shown = "".join(f"{' ' * (wide - len(mark))}{_coloured(mark)}" for mark in line[start:end])
            console.print(f"{escaped(name.ljust(first))}{shown}")
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


def _verdict(row: PatchRow) -> str:
    if row.error:
        return f"  [red]{escaped(row.error)}[/]"
    if row.verified is None:
        return ""
    if row.verified.passed:
        return "  [green]verified[/]"
    return f"  [red]fails: {escaped('; '.join(row.verified.failed))}[/]"


def _coloured(marks: str) -> str:
    return "".join(f"[{_COLOURS[mark]}]{mark}[/]" for mark in marks)


def _conflicts(matrix: Matrix) -> dict[tuple[str, StuckEdit], list[str]]:
    groups: dict[tuple[str, StuckEdit], list[str]] = {}
    for row in matrix.rows:
        for cell in row.patches:
            for site in () if cell.label == LEFT_OUT else cell.conflicts:
                groups.setdefault((cell.patch, site), []).append(_short(row))
    return groups
