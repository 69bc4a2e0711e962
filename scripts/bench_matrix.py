"""Measure ``patchkit matrix`` over many refs of a git clone: cold, cached, and for further refs.

usage: python scripts/bench_matrix.py GIT FIRST LAST [--refs N] [--branches N] [--jobs N] [--out FILE]

The refs are created in a temporary bare clone that shares GIT's objects, in two kinds: the last N first-parent
commits of FIRST..LAST, and branches that diverge from commits all over FIRST..LAST, as a vendor's do: three of five
change several files that patches edit, the others none. The cache is in a temporary folder, one per kind, and each
run is a separate process.

Further refs have a package folder that no other ref has, but only files that are cached: a commit's folder with one
file of another commit. Each is timed alone, from its commit to its states. ``--out docs/benchmarks/matrix.json``
saves the figures for docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import partial
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.table import Table

from patchkit import api
from patchkit.matrix.questions import answer
from patchkit.matrix.survey import recalled
from patchkit.patchset import load
from patchkit.tree.objects import GitRepository, GitTree

TARGETS = {"cold": "60 s", "again": "3 s"}
MOST_MB = 500
TOUCHED = 5
FURTHER, TARGET = 50, "10 ms"
PACKAGE = "python/sglang/"


def git(folder: Path, *arguments: str, text: str = "", index: Path | None = None) -> str:
    """Return git's output."""
    command = ["git", "-C", str(folder), *arguments]
    own = {"GIT_INDEX_FILE": str(index)} if index is not None else {}
    author = {f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        command, input=text, check=True, capture_output=True, text=True, env=os.environ | author | own
    )
    return done.stdout


def with_refs(store: Path, first: str, last: str, count: int, folder: Path) -> tuple[Path, list[str]]:
    """Return a bare clone whose branches ``bench/N`` are the commits, and the commits."""
    commits = git(store, "rev-list", "--first-parent", "--reverse", f"{first}..{last}").split()
    if len(commits) < count:
        raise SystemExit(
            f"{first}..{last} has {len(commits)} commits: name a longer range, or pass fewer --refs."
        )
    clone = folder / "clone.git"
    git(folder, "clone", "--quiet", "--bare", "--shared", str(store), str(clone))
    chosen = commits[-count:]
    lines = (f"create refs/heads/bench/{number:04} {commit}" for number, commit in enumerate(chosen))
    git(clone, "update-ref", "--stdin", text="\n".join(lines) + "\n")
    return clone, chosen


def mixed(clone: Path, commits: list[str], index: Path) -> list[str]:
    """Return commits with a new package folder, in which every file is from one of two commits."""
    made: list[str] = []
    for other, one in pairwise(commits):
        lines = git(clone, "diff-tree", "-r", "--no-renames", one, other, "--", f"{PACKAGE}srt").splitlines()
        changed = [line.split() for line in lines if line.split()[4] == "M"]
        # If only one file differs, the result is the other commit's folder.
        if len(changed) < 2 or len(made) == FURTHER:
            continue
        git(clone, "read-tree", one, index=index)
        _, mode, _, blob, _, file = changed[0]
        git(clone, "update-index", "--cacheinfo", f"{mode},{blob},{file}", index=index)
        tree = git(clone, "write-tree", index=index).strip()
        made.append(git(clone, "commit-tree", "-m", "mixed", tree).strip())
    return made


def further(clone: Path, commits: list[str]) -> list[float]:
    """Return the seconds from each commit to its states, with everything it needs cached."""
    patches = load.patches()
    definitions, decisions = recalled(patches)
    taken = []
    with GitRepository(clone) as repository:
        for number, commit in enumerate(["refs/heads/bench/0000", *commits]):
            started = time.perf_counter()
            found = decisions.find(partial(answer, GitTree(repository, commit), definitions))
            # The first one starts git.
            if number and found is not None:
                taken.append(time.perf_counter() - started)
    return taken


def diverged(clone: Path, commits: list[str], count: int) -> int:
    """Create the branches ``fork/N``; return their number."""
    places = (place for patch in load.patches() for place in (*patch.edits, *patch.facts))
    files = sorted({file for place in places for file in place.files})
    stream: list[bytes] = []
    with GitRepository(clone) as repository:
        for number in range(count):
            base = commits[number * len(commits) // count]
            tree = GitTree(repository, base)
            there = [file for file in files if tree.blob(file) is not None]
            own = [there[(7 * number + 11 * step) % len(there)] for step in range(TOUCHED)]
            changes = {"docs/fork.md": b"%d\n" % number}
            for file in dict.fromkeys(own if number % 5 < 3 else ()):
                code = b"\n\ndef of_fork(value=%d):\n    return value\n" % number
                changes[f"{tree.place}/{file}"] = (tree.read(file) or b"") + code
            stream.append(b"commit refs/heads/fork/%d\n" % number)
            stream.append(b"committer bench <bench@example.com> %d +0000\ndata 4\nfork\n" % number)
            stream.append(b"from %s\n" % base.encode())
            for file, content in changes.items():
                stream.append(b"M 100644 inline %s\ndata %d\n%s\n" % (file.encode(), len(content), content))
    subprocess.run(["git", "-C", str(clone), "fast-import", "--quiet"], input=b"".join(stream), check=True)
    return count


@dataclass(frozen=True)
class Run:
    """The cost of one run; ``peak_mb`` is the greatest memory use of one of its processes."""

    kind: str
    run: str
    refs: int
    states: int
    examined: int
    wall_s: float
    cpu_s: float
    peak_mb: float


def timed(clone: Path, kind: str, name: str, pattern: str, jobs: int) -> Run:
    """Run the matrix in a new process, so that its resource usage can be measured."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_timed, clone, kind, name, pattern, jobs).result()


def _timed(clone: Path, kind: str, name: str, pattern: str, jobs: int) -> Run:
    started = time.perf_counter()
    matrix = api.matrix(clone, [pattern], load.patches(), jobs=jobs).matrix
    wall = time.perf_counter() - started
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    busy = sum(one.ru_utime + one.ru_stime for one in used)
    peak = max(one.ru_maxrss for one in used) / 1024
    return Run(kind, name, len(matrix.rows), matrix.states, matrix.examined, wall, busy, peak)


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description="Measure patchkit matrix over many refs.")
    parser.add_argument("git", type=Path, metavar="GIT")
    parser.add_argument("first", metavar="FIRST")
    parser.add_argument("last", metavar="LAST")
    parser.add_argument("--refs", type=int, default=900)
    parser.add_argument("--branches", type=int, default=450)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, metavar="FILE")
    options = parser.parse_args()
    rows: list[Run] = []
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as work:
        clone, commits = with_refs(options.git, options.first, options.last, options.refs, Path(work))
        every = git(
            options.git, "rev-list", "--first-parent", "--reverse", f"{options.first}..{options.last}"
        ).split()
        diverged(clone, every, options.branches)
        for kind, pattern in (("diverged", "refs/heads/fork/*"), ("neighbours", "refs/heads/bench/*")):
            os.environ["XDG_CACHE_HOME"] = str(Path(work) / kind)
            rows += [timed(clone, kind, name, pattern, options.jobs) for name in TARGETS]
        last = git(clone, "show", "-s", "--format=%h %cs", commits[-1]).split()
        taken = further(clone, mixed(clone, commits, Path(work) / "index"))
    if not taken:
        raise SystemExit("no further ref can be made from cached files: pass more --refs.")
    further_times = {"refs": len(taken), "median_s": statistics.median(taken), "most_s": max(taken)}
    if options.out is not None:
        command = (
            f"python scripts/bench_matrix.py GIT FIRST {last[0]} --refs {options.refs} "
            f"--branches {options.branches} --jobs {options.jobs}"
        )
        now = datetime.now(timezone.utc)
        report: dict[str, object] = {"date": now.isoformat(timespec="seconds"), "command": command}
        report |= {
            "last": last,
            "jobs": options.jobs,
            "cores": os.cpu_count(),
            "load": load_before,
            "runs": [asdict(row) for row in rows if row.kind == "neighbours"],
            "diverged": [asdict(row) for row in rows if row.kind == "diverged"],
            "further": further_times,
        }
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    table = Table("", "", "refs", "states", "examined", "wall s", "CPU s", "peak MB", "target")
    for row in rows:
        figures = map(str, (row.refs, row.states, row.examined))
        took = (f"{row.wall_s:.2f}", f"{row.cpu_s:.2f}", f"{row.peak_mb:.0f}")
        table.add_row(row.kind, row.run, *figures, *took, f"at most {TARGETS[row.run]}, {MOST_MB} MB")
    Console(width=110).print(table)
    print(
        f"A further ref: {1000 * further_times['median_s']:.1f} ms, at most {1000 * further_times['most_s']:.1f} ms "
        f"({further_times['refs']} refs; target: at most {TARGET})"
    )


if __name__ == "__main__":
    main()
