"""Run status and apply on many commits of a git clone and compare with a table of each commit's expected states.

usage: python scripts/history.py GIT TABLE.tsv [--limit N] [--jobs N] [--verify]

TABLE.tsv has a header line: ``commit``, any other columns, and one column per patch id with ``has`` or ``lacks``.
Trees are read from the object store, without a checkout. Exits 0 if every ``has`` is recognised as upstream's and
every ``lacks`` applies, with a result that compiles and that a second plan does not change. With ``--verify`` a
copy of each tree is patched in a temporary folder and must verify; failures are printed with their checks. Results
are cached like those of ``patchkit matrix``.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from patchkit import api
from patchkit.cli.console import progress
from patchkit.matrix.tasks import VERIFY, Task
from patchkit.patchset import load
from patchkit.plan.build import inspect, make_plan
from patchkit.plan.status import State
from patchkit.tree.objects import GitRepository, GitTree
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.matrix.answer import Cell, PatchRow
    from patchkit.patchset.patch import Patch


def shape_of(tree: GitTree) -> str:
    """Return the tree's shape by the names of the upstream page: R, F1, F2 or F3."""
    overlap = tree.read("srt/managers/overlap_utils.py") or b""
    base = tree.read("srt/layers/attention/base_attn_backend.py") or b""
    triton = tree.read("srt/layers/attention/triton_backend.py") or b""
    if b"def resolve_seq_lens" not in overlap:
        return "R"
    if b"def init_forward_metadata_out_graph" in base:
        return "F3"
    return "F2" if b"def _build_cuda_graph_forward_metadata" in triton else "F1"


def faults(tree: GitTree, patches: Sequence[Patch]) -> tuple[str, ...]:
    """Return the errors in a tree with the default patches.

    That is a file that does not compile, a pending patch that is not applied afterwards, or a file that a second
    plan changes.
    """
    chosen = tuple(patch for patch in patches if patch.default)
    plan = make_plan(tree, chosen)
    patched = OverlayTree(tree, {change.file: change.after for change in plan.changes})
    after = {status.patch.id: status for status in inspect(patched, chosen)}
    found = [
        f"a second apply changes {change.file} ({', '.join(change.patches)})"
        for change in make_plan(patched, chosen).changes
    ]
    for status in plan.patches:
        now = after[status.patch.id]
        if status.state is State.PENDING and now.state is not State.APPLIED:
            found.append(f"{now.patch.id} after apply is {now.state.value}: {now.reason}")
    return tuple(found)


FAULTS = Task(
    f"faults {hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]}",
    "planning",
    tuple[str, ...],
    faults,
    states=frozenset({"pending", "partial"}),
)


def differences(expected: dict[str, str], cells: Sequence[Cell]) -> list[str]:
    """Return where the states of patches differ from a row of the table."""
    found = []
    for cell in cells:
        state = expected.get(cell.patch)
        if state == "has" and cell.state != "upstream":
            found.append(f"{cell.patch} is in the tree but {cell.state}: {detail(cell)}")
        elif state == "lacks" and cell.state != "pending":
            found.append(f"{cell.patch} is not in the tree but {cell.state}: {detail(cell)}")
        elif state is None and cell.state in {"conflict", "partial"}:
            found.append(f"{cell.patch} {cell.state}: {detail(cell)}")
    return found


def detail(cell: Cell) -> str:
    """Return the edits of a patch that cause a wrong state."""
    return "; ".join(f"{site.edit} conflict ({site.reason})" for site in cell.conflicts) or cell.reason


def unverified(rows: Sequence[PatchRow]) -> int:
    """Print each commit whose patched tree does not verify, with the failed checks; return their number."""
    failed = 0
    for row in rows:
        reasons = (
            [row.error] if row.error else list(row.verified.failed) if row.verified else ["not verified"]
        )
        if row.error or row.verified is None or not row.verified.passed:
            failed += 1
            print(f"{row.commit[:9]} does not verify: {'; '.join(reasons)}")
    print(f"{len(rows) - failed} of {len(rows)} patched trees verify")
    return failed


def main() -> int:
    """Check the table and print the results by patch and shape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("git")
    parser.add_argument("table", type=Path)
    parser.add_argument("--limit", type=int, default=0, help="use only every Nth commit")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verify", action="store_true", help="verify each tree after patching")
    options = parser.parse_args()
    rows = list(csv.DictReader(options.table.open(), delimiter="\t"))[:: options.limit or 1]
    patches = load.patches()
    default = {patch.id for patch in patches.select()}
    tasks: list[Task[Any]] = [FAULTS, VERIFY] if options.verify else [FAULTS]
    with progress() as watch:
        surveyed = api.matrix(
            Path(options.git),
            [row["commit"] for row in rows],
            patches,
            tasks=tasks,
            jobs=options.jobs,
            watch=watch,
        )
    matrix = surveyed.matrix
    planned = surveyed.results(FAULTS) | {
        state: (reason,) for state, reason in surveyed.failures(FAULTS).items()
    }
    by_name = {row.ref: row for row in matrix.rows}
    with GitRepository(Path(options.git)) as git:
        shape_at = {row.commit: shape_of(GitTree(git, row.commit)) for row in matrix.rows if not row.error}
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    faulty = 0
    reasons: Counter[str] = Counter()
    for expected in rows:
        row = by_name[expected["commit"]]
        found = [cell for cell in row.patches if cell.patch in default]
        errors = [row.error] if row.error else [*planned.get(row.state, ()), *differences(expected, found)]
        shape = "no tree" if row.error else shape_at[row.commit]
        for cell in found:
            counts[cell.patch, shape][cell.state] += 1
        faulty += bool(errors)
        for fault in errors:
            if not reasons[fault]:
                print(f"{row.commit[:9]} {shape}: {fault}")
            reasons[fault] += 1
    shapes = sorted({shape for _, shape in counts})
    table = Table("patch", *shapes, title=f"{len(rows)} trees: state before apply")
    for identifier in dict.fromkeys(key for key, _ in counts):
        cells = [
            ", ".join(f"{n} {s}" for s, n in counts[identifier, shape].most_common()) for shape in shapes
        ]
        table.add_row(identifier, *cells)
    Console(width=110).print(table)
    print(f"{len(rows) - faulty} of {len(rows)} trees match the table; {sum(reasons.values())} faults")
    failed = unverified(matrix.rows) if options.verify else 0
    return 1 if faulty or failed else 0


if __name__ == "__main__":
    sys.exit(main())
