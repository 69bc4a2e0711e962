"""Measure the audit on real trees: seconds cold and cached, findings, and pyright on the same tree for comparison.

    python scripts/bench_audit.py TREE... [--pyright TREE] [--known FILE:LINE,...]

TREE is any tree that ``patchkit audit`` accepts. The table on stdout has one line per tree. With ``--pyright`` the
type checker also runs on the ``srt`` package of that tree, and ``--known`` lists defects to search in both outputs;
install pyright with ``pip install pyright`` or ``npm install pyright``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.audit import cache
from patchkit.audit.engine import audit_program
from patchkit.audit.runners import AuditedProgram
from patchkit.tree.index import read_sources
from patchkit.tree.tree import CheckoutTree, open_tree

if TYPE_CHECKING:
    from patchkit.findings.report import Report

_HEADER = ("tree", "files", "certain", "likely", "possible", "suppressed", "cold s", "cpu s", "cached s")
_NONE_RULES = (
    "reportOptional",
    "reportArgumentType",
    "reportCallIssue",
    "reportIndexIssue",
    "reportOperatorIssue",
)


def measure(tree: CheckoutTree) -> tuple[Report, float, float, float]:
    """Return the report with wall and CPU seconds, and the wall seconds of a run from the cache."""
    started, cpu = time.perf_counter(), time.process_time()
    sources = read_sources(tree)
    report = audit_program(AuditedProgram(sources), started)
    cold, busy = time.perf_counter() - started, time.process_time() - cpu
    cache.save(cache.key(sources), report)
    started = time.perf_counter()
    again = cache.load(cache.key(read_sources(tree)), started)
    warm = time.perf_counter() - started
    if again is None or again.findings != report.findings:
        raise SystemExit(f"{tree.package}: the cached run differs from the first")
    return report, cold, busy, warm


def row(tree: CheckoutTree, name: str) -> list[str]:
    """Return one line of the table."""
    report, cold, busy, warm = measure(tree)
    counts = Counter(finding.confidence.value for finding in report.findings)
    numbers = [counts["certain"], counts["likely"], counts["possible"], len(report.suppressed)]
    seconds = [f"{value:.2f}" for value in (cold, busy, warm)]
    return [tree.version or name, str(report.files_scanned), *map(str, numbers), *seconds]


def pyright(tree: CheckoutTree) -> tuple[float, list[dict[str, object]]]:
    """Run pyright over the ``srt`` package; return its seconds and its diagnostics."""
    program = shutil.which("pyright")
    if program is None:
        raise SystemExit("pyright is not on PATH: pip install pyright, or npm install pyright, and try again")
    with tempfile.TemporaryDirectory() as folder:
        # The package must have its import name, and no configuration above it.
        (Path(folder) / "sglang").symlink_to(tree.package)
        (Path(folder) / "pyrightconfig.json").write_text(json.dumps({"include": ["sglang/srt"]}))
        started = time.perf_counter()
        command = [program, "--outputjson", "-p", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - started
    if not done.stdout.startswith("{"):
        raise SystemExit(f"pyright printed no JSON: {done.stderr.strip()[:200]}")
    return seconds, json.loads(done.stdout)["generalDiagnostics"]


def compare(tree: CheckoutTree, known: list[str]) -> None:
    """Print seconds, findings and known defects found, for the audit and for pyright."""
    report, cold, _, _ = measure(tree)
    ours = {f"{finding.file}:{finding.line}" for finding in report.findings}
    sure = [finding for finding in report.findings if finding.confidence.value != "possible"]
    seconds, diagnostics = pyright(tree)
    theirs = set()
    about_none = 0
    for diagnostic in diagnostics:
        file = f"srt/{str(diagnostic['file']).rpartition('/sglang/srt/')[2]}"
        line = int(diagnostic["range"]["start"]["line"]) + 1  # type: ignore[index]
        theirs.add(f"{file}:{line}")
        about_none += "None" in str(diagnostic["message"]) and str(diagnostic.get("rule", "")).startswith(
            _NONE_RULES
        )
    print(f"{'tool':10} {'seconds':>8} {'findings':>9} {'of these':>28} {'known':>6}")
    detail = f"{len(sure)} certain or likely"
    print(f"{'audit':10} {cold:8.1f} {len(ours):9} {detail:>28} {_hits(known, ours)}")
    detail = f"{about_none} about None"
    print(f"{'pyright':10} {seconds:8.1f} {len(diagnostics):9} {detail:>28} {_hits(known, theirs)}")


def _hits(known: list[str], found: set[str]) -> str:
    return f"{sum(place in found for place in known):4}/{len(known)}"


def main() -> int:
    """Print the table, then the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="*", type=Path, metavar="TREE")
    parser.add_argument("--pyright", type=Path, metavar="TREE")
    parser.add_argument("--known", default="", metavar="FILE:LINE,...")
    arguments = parser.parse_args()
    if arguments.trees:
        print("  ".join(f"{name:>10}" for name in _HEADER))
    for path in arguments.trees:
        print("  ".join(f"{cell:>10}" for cell in row(open_tree(path), path.name)))
    if arguments.pyright is not None:
        compare(open_tree(arguments.pyright), [place for place in arguments.known.split(",") if place])
    return 0


if __name__ == "__main__":
    sys.exit(main())
