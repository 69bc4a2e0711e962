"""Measure apply and status on a real tree, relative to parsing and printing the changed files once.

    python scripts/bench_apply.py TREE [--repeats N] [--json]

TREE is an unpatched tree, such as ``.cache/quickstart/original``, and is copied. Every figure is for whole
processes. The baseline parses and prints with libcst the files that apply changes. Baseline, apply, status of the
patched tree (first and cached) and apply with one more patch on those files alternate; the output has medians of
wall clock and CPU seconds, and their ratios to the baseline.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from processes import timed
from rich.console import Console
from rich.table import Table

from patchkit.patchset import load
from patchkit.plan.build import make_plan
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

FLOOR = """
import sys
import libcst
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        libcst.parse_module(file.read()).bytes
"""
ONE_MORE = """
schema = 1
id = "bench-one-more"
title = "One patch more"
why = "To see what it costs."
risk = "None."
verify = "Look."
"""
EDIT = """
[edit.{name}]
kind = "import"
why = "to see what it costs"
at = "{file}"
code = "from patchkit.bench import {name}"
"""
AGAIN = "status again"
MORE = "one patch more"
TARGETS = {"apply": 2.0, "status": 1.0, AGAIN: 1.0}


def one_more(folder: Path, files: Sequence[str]) -> Path:
    """Write a patch that edits each of the files, and return its folder."""
    edits = (EDIT.format(name=f"bench_{index}", file=file) for index, file in enumerate(files))
    folder.mkdir()
    (folder / "patch.toml").write_text("".join([ONE_MORE, *edits]))
    return folder


def measure(tree: Path, repeats: int, work: Path) -> dict[str, list[tuple[float, float]]]:
    """Return the seconds of each run, by what was run."""
    plan = make_plan(open_tree(tree), tuple(load.patches()))
    files = [change.file for change in plan.changes]
    if not files:
        raise SystemExit(f"{tree}: no patch applies; name an unpatched tree.")
    package = open_tree(tree).package
    extra = one_more(work / "one-more", files)
    patchkit = (sys.executable, "-m", "patchkit")
    floor = (sys.executable, "-c", FLOOR, *(package / file for file in files))
    found: dict[str, list[tuple[float, float]]] = {
        "floor": [],
        "apply": [],
        "status": [],
        AGAIN: [],
        MORE: [],
    }
    for turn in range(repeats):
        home, copy = work / f"home-{turn}", work / "copy"
        home.mkdir()
        found["floor"].append(timed(floor, home))
        shutil.copytree(package, copy / "sglang")
        found["apply"].append(timed((*patchkit, "apply", copy), home))
        found["status"].append(timed((*patchkit, "status", copy), home))
        found[AGAIN].append(timed((*patchkit, "status", copy), home))
        shutil.rmtree(copy)
        shutil.copytree(package, copy / "sglang")
        found[MORE].append(timed((*patchkit, "apply", copy, "--patches", extra), home))
        shutil.rmtree(copy)
    return found


def summary(found: dict[str, list[tuple[float, float]]]) -> dict[str, dict[str, float]]:
    """Return medians in seconds and their ratios to the baseline; one more patch as the difference to apply."""
    wall = {name: statistics.median(run[0] for run in runs) for name, runs in found.items()}
    busy = {name: statistics.median(run[1] for run in runs) for name, runs in found.items()}
    for medians in (wall, busy):
        medians[MORE] -= medians["apply"]
    return {
        name: {
            "wall_s": wall[name],
            "cpu_s": busy[name],
            "wall_ratio": wall[name] / wall["floor"],
            "cpu_ratio": busy[name] / busy["floor"],
        }
        for name in found
    }


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(
        description="Measure apply and status relative to parsing and printing once."
    )
    parser.add_argument("tree", type=Path, metavar="TREE")
    parser.add_argument("--repeats", type=int, default=7, help="Number of runs (default: 7).")
    parser.add_argument("--json", action="store_true", dest="as_json", help="Print JSON.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        medians = summary(measure(arguments.tree, arguments.repeats, Path(work)))
    if arguments.as_json:
        print(json.dumps({"tree": str(arguments.tree), "repeats": arguments.repeats, "medians": medians}))
        return
    table = Table("", "wall s", "CPU s", "wall / floor", "CPU / floor", "target", title=str(arguments.tree))
    for name, row in medians.items():
        figures = (f"{row[key]:.2f}" for key in ("wall_s", "cpu_s", "wall_ratio", "cpu_ratio"))
        target = f"at most {TARGETS[name]:.1f}" if name in TARGETS else ""
        table.add_row(name, *figures, target)
    Console().print(table)


if __name__ == "__main__":
    main()
