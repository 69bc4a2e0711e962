"""Measure the audit on real trees: seconds cold and cached, findings, and pyright on the same tree for comparison.

    python scripts/bench_audit.py TREE... [--pyright TREE] [--known FILE:LINE,...] [--out FILE]

TREE is any tree that ``patchkit audit`` accepts; its folder's name is its name in the results. The table on stdout has
one line per tree. With ``--pyright`` the type checker also runs on the ``srt`` package of that tree, which must be one
of the trees, and ``--known`` lists defects to search in both outputs; install pyright with ``pip install pyright`` or
``npm install pyright``. ``--out docs/benchmarks/audit.json`` saves the results for docs/audit.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchkit import cache
from patchkit.audit.engine import CACHED, audit_cached, audit_program, cache_key
from patchkit.audit.runners import AuditedProgram
from patchkit.tree.index import read_sources
from patchkit.tree.tree import CheckoutTree, open_tree

if TYPE_CHECKING:
    from patchkit.findings.report import Report

CONFIDENCES = ("certain", "likely", "possible")
_COLUMNS = ("name", "files", *CONFIDENCES, "suppressed", "cold_s", "cpu_s", "cached_s")
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
    cache.save(CACHED, cache_key(sources), report)
    started = time.perf_counter()
    again = audit_cached(tree)
    warm = time.perf_counter() - started
    if set(report.findings) - set(again.findings):
        raise SystemExit(f"{tree.package}: the cached run differs from the first")
    return report, cold, busy, warm


def audited(tree: CheckoutTree, name: str) -> dict[str, Any]:
    """Return what the audit of one tree finds, and how long it takes."""
    report, cold, busy, warm = measure(tree)
    counts = Counter(finding.confidence.value for finding in report.findings)
    return {
        "name": name,
        "files": report.files_scanned,
        **{confidence: counts[confidence] for confidence in CONFIDENCES},
        "suppressed": len(report.suppressed),
        "cold_s": round(cold, 2),
        "cpu_s": round(busy, 2),
        "cached_s": round(warm, 3),
        "findings": [
            {
                "rule": finding.rule,
                "place": f"{finding.file}:{finding.line}",
                "confidence": finding.confidence.value,
            }
            for finding in report.findings
        ],
    }


def pyright(tree: CheckoutTree) -> tuple[float, list[dict[str, object]]]:
    """Run pyright over the ``srt`` package; return its CPU seconds and its diagnostics."""
    program = shutil.which("pyright")
    if program is None:
        raise SystemExit("pyright is not on PATH: pip install pyright, or npm install pyright, and try again")
    with tempfile.TemporaryDirectory() as folder:
        # The package must have its import name, and no configuration above it.
        (Path(folder) / "sglang").symlink_to(tree.package)
        (Path(folder) / "pyrightconfig.json").write_text(json.dumps({"include": ["sglang/srt"]}))
        earlier = _of_children()
        command = [program, "--outputjson", "-p", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = _of_children() - earlier
    if not done.stdout.startswith("{"):
        raise SystemExit(f"pyright printed no JSON: {done.stderr.strip()[:200]}")
    return seconds, json.loads(done.stdout)["generalDiagnostics"]


def _of_children() -> float:
    """Return the CPU seconds of all processes that this one started and that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(tree: CheckoutTree, of_audit: dict[str, Any], known: list[str]) -> dict[str, Any]:
    """Return the known defects that the audit and pyright find in one tree, and pyright's CPU seconds and findings."""
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
    ours = {finding["place"] for finding in of_audit["findings"]}
    return {
        "tree": of_audit["name"],
        "known": known,
        "audit": {"known": [place for place in known if place in ours]},
        "pyright": {
            "known": [place for place in known if place in theirs],
            "cpu_s": round(seconds, 1),
            "findings": len(diagnostics),
            "about_none": about_none,
        },
    }


def main() -> int:
    """Print the table, then the comparison, and save both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE")
    parser.add_argument("--pyright", metavar="TREE")
    parser.add_argument("--known", default="", metavar="FILE:LINE,...")
    parser.add_argument("--out", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    folders = {path.name: path for path in arguments.trees}
    checked = Path(arguments.pyright).name if arguments.pyright else None
    if checked is not None and checked not in folders:
        parser.error(f"--pyright {arguments.pyright} is not one of the trees")
    print("  ".join(f"{name:>10}" for name in _COLUMNS))
    trees = {}
    for name, folder in folders.items():
        trees[name] = audited(open_tree(folder), name)
        print("  ".join(f"{trees[name][key]:>10}" for key in _COLUMNS))
    results: dict[str, Any] = {
        "command": shlex.join(["python", "scripts/bench_audit.py", *sys.argv[1:]]),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "trees": list(trees.values()),
    }
    if checked is not None:
        known = [place for place in arguments.known.split(",") if place]
        results["compared"] = compare(open_tree(folders[checked]), trees[checked], known)
        print(json.dumps(results["compared"], indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
