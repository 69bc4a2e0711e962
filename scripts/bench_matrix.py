"""Measure ``patchkit matrix`` over many refs of a git clone: cold, again, and what a further ref takes.

usage: python scripts/bench_matrix.py GIT FIRST LAST [--refs N] [--jobs N] [--out FILE]

The refs are made in a temporary bare clone that shares GIT's objects: one for each of the last N first-parent commits
of FIRST..LAST. What is remembered between runs is kept in a temporary folder too. Further refs have a package folder
that no ref has, all of whose files some ref has: a commit's with one file as another has it. Each is timed by itself,
from its commit to its answer, by what the matrix settles it with. ``--out docs/benchmarks/matrix.json`` keeps the
figures for docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time
from datetime import datetime, timezone
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from patchkit import api
from patchkit.matrix.questions import answer
from patchkit.matrix.survey import recalled
from patchkit.patchset import load
from patchkit.tree.git import GitRepository, GitTree

if TYPE_CHECKING:
    from patchkit.matrix.answer import Matrix

TARGETS = {"cold": "60 s", "again": "5 s"}
FURTHER, TARGET = 50, "10 ms"
PACKAGE = "python/sglang/"


def git(folder: Path, *arguments: str, text: str = "", index: Path | None = None) -> str:
    """Return what git prints."""
    command = ["git", "-C", str(folder), *arguments]
    own = {"GIT_INDEX_FILE": str(index)} if index is not None else {}
    author = {f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        command, input=text, check=True, capture_output=True, text=True, env=os.environ | author | own
    )
    return done.stdout


def with_refs(store: Path, first: str, last: str, count: int, folder: Path) -> tuple[Path, list[str]]:
    """Return a bare clone whose branches ``bench/N`` are the commits, and those."""
    commits = git(store, "rev-list", "--first-parent", "--reverse", f"{first}..{last}").split()
    if len(commits) < count:
        raise SystemExit(f"{first}..{last} has {len(commits)} commits: name a longer range or fewer --refs.")
    clone = folder / "clone.git"
    git(folder, "clone", "--quiet", "--bare", "--shared", str(store), str(clone))
    chosen = commits[-count:]
    lines = (f"create refs/heads/bench/{number:04} {commit}" for number, commit in enumerate(chosen))
    git(clone, "update-ref", "--stdin", text="\n".join(lines) + "\n")
    return clone, chosen


def mixed(clone: Path, commits: list[str], index: Path) -> list[str]:
    """Return commits with a package folder of their own, all of whose files are of one of two commits each."""
    made: list[str] = []
    for other, one in pairwise(commits):
        told = git(clone, "diff-tree", "-r", "--no-renames", one, other, "--", f"{PACKAGE}srt").splitlines()
        changed = [line.split() for line in told if line.split()[4] == "M"]
        # With one file alone, the other's folder comes out.
        if len(changed) < 2 or len(made) == FURTHER:
            continue
        git(clone, "read-tree", one, index=index)
        _, mode, _, blob, _, file = changed[0]
        git(clone, "update-index", "--cacheinfo", f"{mode},{blob},{file}", index=index)
        tree = git(clone, "write-tree", index=index).strip()
        made.append(git(clone, "commit-tree", "-m", "mixed", tree).strip())
    return made


def further(clone: Path, commits: list[str]) -> list[float]:
    """Return the seconds from each commit to its answer, where all that is asked of it is known."""
    patches = load.patches()
    definitions, decisions = recalled(patches)
    taken = []
    with GitRepository(clone) as repository:
        for number, commit in enumerate(["refs/heads/bench/0000", *commits]):
            started = time.perf_counter()
            found = decisions.find(partial(answer, GitTree(repository, commit), definitions))
            # The first has git start.
            if number and found is not None:
                taken.append(time.perf_counter() - started)
    return taken


def timed(clone: Path, jobs: int) -> tuple[Matrix, float, float]:
    """Return the matrix, and the seconds that passed and that processors were busy."""
    before, started = cpu(), time.perf_counter()
    matrix = api.matrix(clone, ["refs/heads/bench/*"], load.patches(), jobs=jobs).matrix
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
    parser.add_argument("--out", type=Path, metavar="FILE")
    options = parser.parse_args()
    rows = []
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as work:
        os.environ["XDG_CACHE_HOME"] = str(Path(work) / "cache")
        clone, commits = with_refs(options.git, options.first, options.last, options.refs, Path(work))
        for name in TARGETS:
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
        last = git(clone, "show", "-s", "--format=%h %cs", commits[-1]).split()
        taken = further(clone, mixed(clone, commits, Path(work) / "index"))
    if not taken:
        raise SystemExit("no further ref could be made of known files: take more --refs.")
    told = {"refs": len(taken), "median_s": statistics.median(taken), "most_s": max(taken)}
    if options.out is not None:
        command = (
            f"python scripts/bench_matrix.py GIT FIRST {last[0]} --refs {options.refs} --jobs {options.jobs}"
        )
        now = datetime.now(timezone.utc)
        said: dict[str, object] = {"date": now.isoformat(timespec="seconds"), "command": command}
        said |= {
            "last": last,
            "jobs": options.jobs,
            "cores": os.cpu_count(),
            "load": load,
            "runs": rows,
            "further": told,
        }
        options.out.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    table = Table("", "refs", "states", "examined", "wall s", "CPU s", "target")
    for row in rows:
        figures = [str(row[key]) for key in ("refs", "states", "examined")]
        seconds = [f"{row[key]:.2f}" for key in ("wall_s", "cpu_s")]
        table.add_row(str(row["run"]), *figures, *seconds, f"at most {TARGETS[str(row['run'])]}")
    Console().print(table)
    print(
        f"A further ref: {1000 * told['median_s']:.1f} ms, at most {1000 * told['most_s']:.1f} ms "
        f"({told['refs']} refs; target: at most {TARGET})"
    )


if __name__ == "__main__":
    main()
