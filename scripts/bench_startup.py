"""Compare the start-up time of commands with another commit: ``--help``, and a cached ``status``.

    python scripts/bench_startup.py TREE --against COMMIT [--repeats N]

The commit is checked out in a temporary folder. Runs of this checkout and that one alternate, as whole processes;
the ratio is computed per pair, so that other load affects both, and the medians of the ratios are printed. Exits 1
if a command takes over 5 % more CPU time than with the other commit.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

import click
from processes import REPOSITORY, checked_out, timed
from rich.console import Console
from rich.table import Table

from patchkit.tree.tree import open_tree

MOST = 1.05


def ratios(
    commands: dict[str, list[str]], other: Path, home: Path, repeats: int
) -> dict[str, tuple[float, float]]:
    """Return the median ratio to the other commit of each command, of wall clock and of CPU time."""
    python = [sys.executable, "-m", "patchkit"]
    found = {}
    for name, words in commands.items():
        homes = [home / f"{name}-{number}" for number in range(2)]
        checkouts = [REPOSITORY, other]
        rounds = []
        for own in homes:
            own.mkdir()
        for number in range(repeats + 1):
            runs = [
                timed([*python, *words], own, PYTHONPATH=str(checkout), PYTHONDONTWRITEBYTECODE="")
                for own, checkout in zip(homes, checkouts, strict=True)
            ]
            # The first run compiles the modules and fills the cache.
            if number:
                rounds.append(tuple(ours / theirs for ours, theirs in zip(*runs, strict=True)))
        wall, busy = (statistics.median(column) for column in zip(*rounds, strict=True))
        found[name] = (wall, busy)
    return found


@click.command(help=__doc__)
@click.argument("tree", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--against", required=True, metavar="COMMIT", help="The commit to compare with.")
@click.option("--repeats", default=21, show_default=True, help="Number of runs.")
def main(tree: Path, against: str, repeats: int) -> None:
    """Measure and print the results."""
    package = str(open_tree(tree).package.resolve())
    with tempfile.TemporaryDirectory(prefix="patchkit-startup-") as folder, checked_out(against) as other:
        found = ratios({"help": ["--help"], "status": ["status", package]}, other, Path(folder), repeats)
    table = Table("command", "wall", "CPU", title=f"ratio to {against}, median of {repeats} turns")
    for name, (wall, busy) in found.items():
        table.add_row(name, f"{wall:.3f}", f"{busy:.3f}")
    Console().print(table)
    sys.exit(any(busy > MOST for _, busy in found.values()))


if __name__ == "__main__":
    main()
