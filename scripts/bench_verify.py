"""Measure ``verify`` of patched trees without patchkit's cache, but with their files in the page cache.

    python scripts/bench_verify.py TREE... [--against COMMIT] [--repeats N]

Every figure is for whole processes; with another commit, its runs alternate with this checkout's. The minimum of
the runs is printed, in seconds of wall clock and CPU, which are the same on one idle core.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click
from processes import REPOSITORY, checked_out, timed
from rich.console import Console
from rich.table import Table

MOST = 6.0


def measured(
    trees: tuple[Path, ...], checkouts: dict[str, Path], repeats: int
) -> dict[tuple[Path, str], tuple[float, float]]:
    """Return the minimum seconds of each tree's verify by each checkout, of wall clock and CPU."""
    runs: dict[tuple[Path, str], list[tuple[float, float]]] = {}
    for turn in range(repeats + 1):
        for tree in trees:
            for name, checkout in checkouts.items():
                with tempfile.TemporaryDirectory(prefix="patchkit-verify-") as home:
                    command = (sys.executable, "-m", "patchkit", "verify", tree.resolve())
                    run = timed(command, Path(home), PYTHONPATH=str(checkout), PYTHONDONTWRITEBYTECODE="")
                # The first run compiles the modules and fills the page cache.
                if turn:
                    runs.setdefault((tree, name), []).append(run)
    return {key: (min(wall for wall, _ in each), min(busy for _, busy in each)) for key, each in runs.items()}


@click.command(help=__doc__)
@click.argument(
    "trees", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--against", metavar="COMMIT", help="The commit to compare with.")
@click.option("--repeats", default=5, show_default=True, help="Number of runs.")
def main(trees: tuple[Path, ...], against: str | None, repeats: int) -> None:
    """Measure and print the results."""
    with ExitStack() as stack:
        checkouts = {"here": REPOSITORY}
        if against is not None:
            checkouts[against] = stack.enter_context(checked_out(against))
        found = measured(trees, checkouts, repeats)
    table = Table("tree", "commit", "wall s", "CPU s", "target", title="verify, cold")
    for (tree, name), (wall, busy) in found.items():
        table.add_row(tree.name, name, f"{wall:.2f}", f"{busy:.2f}", f"at most {MOST:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
