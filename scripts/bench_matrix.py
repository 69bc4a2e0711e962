"""Measure ``patchkit matrix`` over many refs of a git clone: cold, again, and with one ref more.

usage: python scripts/bench_matrix.py GIT FIRST LAST [--refs N] [--jobs N] [--json]

The refs are made in a temporary bare clone that shares GIT's objects: one for each of the last N first-parent commits
of FIRST..LAST. What is remembered between runs is kept in a temporary folder too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from patchkit import api
from patchkit.patchset import load

if TYPE_CHECKING:
    from patchkit.matrix.answer import Matrix

TARGETS = {"cold": "60 s", "again": "5 s", "one ref more": "10 ms beside again"}


def git(folder: Path, *arguments: str, text: str = "") -> str:
    """Return what git prints."""
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout


def with_refs(store: Path, first: str, last: str, count: int, folder: Path) -> tuple[Path, str]:
    """Return a bare clone whose branches ``bench/N`` are the commits, and the commit before the first of them."""
    commits = git(store, "rev-list", "--first-parent", "--reverse", f"{first}..{last}").split()
    if len(commits) <= count:
        raise SystemExit(f"{first}..{last} has {len(commits)} commits: name a longer range or fewer --refs.")
    clone = folder / "clone.git"
    git(folder, "clone", "--quiet", "--bare", "--shared", str(store), str(clone))
    chosen = commits[-count:]
    lines = (f"create refs/heads/bench/{number:04} {commit}" for number, commit in enumerate(chosen))
    git(clone, "update-ref", "--stdin", text="\n".join(lines) + "\n")
    return clone, commits[-count - 1]


def timed(clone: Path, jobs: int) -> tuple[Matrix, float, float]:
    """Return the matrix, and the seconds that passed and that processors were busy."""
    before, started = cpu(), time.perf_counter()
    matrix = api.matrix(clone, ["refs/heads/bench/*"], load.patches(), jobs=jobs)
    return matrix, time.perf_counter() - started, cpu() - before


def cpu() -> float:
    """Return the seconds of processor time of this process and of those that it started and that ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure patchkit matrix over many refs.")
    parser.add_argument("git", type=Path, metavar="GIT")
    parser.add_argument("first", metavar="FIRST")
    parser.add_argument("last", metavar="LAST")
    parser.add_argument("--refs", type=int, default=900)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as work:
        os.environ["XDG_CACHE_HOME"] = str(Path(work) / "cache")
        clone, earlier = with_refs(options.git, options.first, options.last, options.refs, Path(work))
        for name in TARGETS:
            if name == "one ref more":
                git(clone, "update-ref", "refs/heads/bench/more", earlier)
            matrix, wall, busy = timed(clone, options.jobs)
            rows.append(
                {
                    "run": name,
                    "refs": len(matrix.rows),
                    "states": matrix.states,
                    "examined": matrix.examined,
                    "wall_s": wall,
                    "cpu_s": busy,
                }
            )
    if options.as_json:
        print(json.dumps({"jobs": options.jobs, "cores": os.cpu_count(), "runs": rows}))
        return
    table = Table("", "refs", "states", "examined", "wall s", "CPU s", "target")
    for row in rows:
        figures = [str(row[key]) for key in ("refs", "states", "examined")]
        seconds = [f"{row[key]:.2f}" for key in ("wall_s", "cpu_s")]
        table.add_row(str(row["run"]), *figures, *seconds, f"at most {TARGETS[str(row['run'])]}")
    Console().print(table)


if __name__ == "__main__":
    main()
