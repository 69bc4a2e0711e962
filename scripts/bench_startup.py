"""Compare how fast commands start with another commit: ``--help``, and ``status`` of a tree that is remembered.

    python scripts/bench_startup.py TREE --against COMMIT [--repeats N]

The commit is checked out in a temporary folder. This checkout and that one take turns, in whole processes; each
turn's ratio is taken by itself, so that a machine that is busy for a while slows both, and the medians of the
ratios are printed. Exits 1 where a command takes more than 5 % more CPU than with the other commit.
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
    """Return for each command the median ratio to the other commit's, of wall clock and of CPU."""
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
            # The first compiles, and fills the cache.
            if number:
                rounds.append(tuple(ours / theirs for ours, theirs in zip(*runs, strict=True)))
        wall, busy = (statistics.median(column) for column in zip(*rounds, strict=True))
        found[name] = (wall, busy)
    return found


@click.command(help=__doc__)
@click.argument("tree", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--against", required=True, metavar="COMMIT", help="What to compare with.")
@click.option("--repeats", default=21, show_default=True, help="Turns.")
def main(tree: Path, against: str, repeats: int) -> None:
    """Measure and print."""
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
