"""Run status and apply over many commits of a git clone and check them against a table of what each commit has.

usage: python scripts/history.py GIT TABLE.tsv [--limit N] [--jobs N] [--verify]

TABLE.tsv has a header line: ``commit``, any other columns, and one column a patch id whose cells are ``has`` or
``lacks``. Nothing is checked out: trees are read from the object store. Exits 0 only if every ``has`` is recognised
as upstream's and every ``lacks`` applies, in a plan whose result compiles and of which a second plan changes nothing.
With ``--verify`` a copy of each tree is patched in a temporary folder and has to verify; each that does not is named
with the checks that failed. What was verified is remembered as ``patchkit matrix`` remembers it.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from patchkit import api
from patchkit.patchset import load
from patchkit.plan.build import inspect, make_plan
from patchkit.plan.status import State
from patchkit.tree.git import GitRepository, GitTree
from patchkit.tree.tree import OverlayTree

Row = dict[str, str]
Result = tuple[str, str, dict[str, str], list[str]]


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


def examine(repository: str, row: Row) -> Result:
    """Return commit, shape, state by patch, and what is wrong."""
    faults: list[str] = []
    with GitRepository(Path(repository)) as git:
        tree = GitTree(git, row["commit"])
        patches = load.patches().select()
        before = {status.patch.id: status for status in inspect(tree, patches)}
        plan = make_plan(tree, patches)
        changed = {change.file: change.after for change in plan.changes}
        for file, text in changed.items():
            try:
                compile(text or b"", file, "exec")
            except SyntaxError as error:
                faults.append(f"{file} does not compile: {error}")
        patched = OverlayTree(tree, changed)
        after = {status.patch.id: status for status in inspect(patched, patches)}
        again = make_plan(patched, patches).changes
        faults += [f"a second apply changes {change.file} ({', '.join(change.patches)})" for change in again]
        shape = shape_of(tree)
    for identifier, status in before.items():
        told = row.get(identifier)
        if told == "has" and status.state is not State.UPSTREAM:
            faults.append(f"{identifier} is there but {status.state.value}: {detail(status)}")
        elif told == "lacks" and status.state is not State.PENDING:
            faults.append(f"{identifier} is not there but {status.state.value}: {detail(status)}")
        elif told is None and status.state in {State.CONFLICT, State.PARTIAL}:
            faults.append(f"{identifier} {status.state.value}: {detail(status)}")
        if status.state is State.PENDING and after[identifier].state is not State.APPLIED:
            faults.append(
                f"{identifier} after apply is {after[identifier].state.value}: {detail(after[identifier])}"
            )
    return row["commit"], shape, {key: value.state.value for key, value in before.items()}, faults


def detail(status: object) -> str:
    """Return the edits of a status that need a look."""
    edits = getattr(status, "edits", ())
    parts = [
        f"{e.name} {e.state.value} ({e.reason})" for e in edits if e.state.value in {"conflict", "pending"}
    ]
    return "; ".join(parts) or getattr(status, "reason", "")


def verify(repository: str, commits: list[str], jobs: int) -> int:
    """Name each commit whose patched tree does not verify, with the checks that failed; return how many."""
    surveyed = api.matrix(Path(repository), commits, load.patches(), verify=True, jobs=jobs)
    failed = 0
    for row in surveyed.rows:
        reasons = (
            [row.error] if row.error else list(row.verified.failed) if row.verified else ["not verified"]
        )
        if row.error or row.verified is None or not row.verified.passed:
            failed += 1
            print(f"{row.commit[:9]} does not verify: {'; '.join(reasons)}")
    print(f"{len(surveyed.rows) - failed} of {len(surveyed.rows)} patched trees verify")
    return failed


def main() -> int:
    """Run the table and print it by patch and shape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("git")
    parser.add_argument("table", type=Path)
    parser.add_argument("--limit", type=int, default=0, help="take only every Nth commit")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verify", action="store_true", help="verify each tree once it is patched")
    options = parser.parse_args()
    rows = list(csv.DictReader(options.table.open(), delimiter="\t"))[:: options.limit or 1]
    console = Console(stderr=True)
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = pool.map(examine, [options.git] * len(rows), rows)
        results = list(
            track(jobs, "commits", total=len(rows), console=console, disable=not console.is_terminal)
        )
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    faulty = 0
    reasons: Counter[str] = Counter()
    for commit, shape, states, faults in results:
        for identifier, state in states.items():
            counts[identifier, shape][state] += 1
        faulty += bool(faults)
        for fault in faults:
            if not reasons[fault]:
                print(f"{commit[:9]} {shape}: {fault}")
            reasons[fault] += 1
    shapes = sorted({shape for _, shape in counts})
    table = Table("patch", *shapes, title=f"{len(rows)} trees: state before apply")
    for identifier in dict.fromkeys(key for key, _ in counts):
        cells = [
            ", ".join(f"{n} {s}" for s, n in counts[identifier, shape].most_common()) for shape in shapes
        ]
        table.add_row(identifier, *cells)
    Console(width=110).print(table)
    print(f"{len(rows) - faulty} of {len(rows)} trees as the table says; {sum(reasons.values())} faults")
    unverified = verify(options.git, [row["commit"] for row in rows], options.jobs) if options.verify else 0
    return 1 if faulty or unverified else 0


if __name__ == "__main__":
    sys.exit(main())
