"""Write a matrix as comma-separated values, with a line for each ref and a column for each patch."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from patchkit.findings.printable import printable

if TYPE_CHECKING:
    from patchkit.matrix.answer import Matrix


def document(matrix: Matrix) -> str:
    """Return the lines; ``verified`` is empty without ``--verify``."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["ref", "commit", *matrix.patches, "verified", "error"])
    for row in matrix.rows:
        states = {cell.patch: cell.label for cell in row.patches}
        verified = "" if row.verified is None else "yes" if row.verified.passed else "no"
        writer.writerow(
            [
                printable(row.ref),
                row.commit,
                *(states.get(name, "") for name in matrix.patches),
                verified,
                printable(row.error),
            ]
        )
    return text.getvalue().removesuffix("\n")
