"""Compare the time of commands with another commit, and that of an apply with what libcst alone needs for it.

    python scripts/bench_commands.py TREE --against COMMIT [--repeats N] [--only COMMAND]...

TREE is an unpacked release. Each commit gets checkouts of it, one of which it patches itself, and its own cache, which
is empty for each ``matrix`` and filled for ``status``. Whole processes of this checkout and of that one alternate; the
ratio is computed per pair, so that other load affects both, and the medians of the ratios are printed. The floor is a
process that parses the files that change with libcst and writes them as they were. Exits 1 if a command takes over 5 %
more CPU time than with the other commit.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from processes import REPOSITORY, checked_out, timed
from rich.console import Console
from rich.table import Table

from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST = 1.05
COMMANDS = {
    "help": ("--help",),
    "status": ("status", "{plain}"),
    "apply one": ("apply", "{plain}", "26128", "--dry-run"),
    "apply": ("apply", "{plain}", "--dry-run"),
    "verify": ("verify", "{patched}"),
    "matrix": ("matrix", "{plain}", "--refs", "HEAD"),
}
FLOOR = "import sys, libcst\nfor name in sys.argv[1:]: libcst.parse_module(open(name, 'rb').read()).bytes"


def git(folder: Path, *words: str) -> str:
    """Run git as somebody, and return its output."""
    person = ("-c", "user.name=A Person", "-c", "user.email=person@example.com")
    command = ["git", "-C", str(folder), *person, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True)
class Side:
    """One of the commits, with a folder for its trees and caches."""

    checkout: Path
    folder: Path

    def run(self, words: Sequence[str], home: str = "home") -> tuple[float, float]:
        """Run a command; return its seconds of wall clock and of CPU."""
        places = {"plain": self.folder / "plain", "patched": self.folder / "patched"}
        (self.folder / home).mkdir(exist_ok=True)
        command = [sys.executable, "-m", "patchkit", *(word.format(**places) for word in words)]
        environment = {"PYTHONPATH": str(self.checkout), "PYTHONDONTWRITEBYTECODE": ""}
        return timed(command, self.folder / home, **environment)

    def prepare(self, package: Path) -> None:
        """Make the trees."""
        plain, patched = self.folder / "plain", self.folder / "patched"
        plain.mkdir()
        # Releases are often read-only.
        subprocess.run(["cp", "-r", "--no-preserve=mode", package, plain], check=True)
        git(plain, "init", "-q")
        git(plain, "add", "-A")
        git(plain, "commit", "-qm", "As it is")
        shutil.copytree(plain, patched)
        self.run(("apply", "{patched}"))

    @property
    def changed(self) -> list[Path]:
        """The files of the plain tree that its patches change."""
        patched = self.folder / "patched"
        names = git(patched, "diff", "--name-only", "--diff-filter=M", "HEAD", "--", "*.py").split()
        return [self.folder / "plain" / name for name in names]


def ratios(sides: Sequence[Side], name: str, repeats: int) -> tuple[float, float]:
    """Return the median ratio of the first side to the second, of wall clock and of CPU time."""
    rounds = []
    for number in range(repeats + 1):
        home = f"home-{number}" if name == "matrix" else "home"
        runs = [side.run(COMMANDS[name], home) for side in sides]
        # The first run compiles the modules and fills the cache.
        if number:
            rounds.append(tuple(ours / theirs for ours, theirs in zip(*runs, strict=True)))
    wall, busy = (statistics.median(column) for column in zip(*rounds, strict=True))
    return wall, busy


def over_floor(side: Side, repeats: int) -> tuple[float, float]:
    """Return the median ratio of an apply to libcst's parse and output of the same files."""
    floor = [sys.executable, "-c", FLOOR, *map(str, side.changed)]
    rounds = []
    for _ in range(repeats):
        pair = side.run(COMMANDS["apply"]), timed(floor, side.folder)
        rounds.append(tuple(ours / least for ours, least in zip(*pair, strict=True)))
    wall, busy = (statistics.median(column) for column in zip(*rounds, strict=True))
    return wall, busy


@click.command(help=__doc__)
@click.argument("tree", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--against", required=True, metavar="COMMIT", help="The commit to compare with.")
@click.option("--repeats", default=21, show_default=True, help="Number of runs.")
@click.option("--only", type=click.Choice([*COMMANDS, "floor"]), multiple=True, help="Only these.")
def main(tree: Path, against: str, repeats: int, only: Sequence[str]) -> None:
    """Measure and print the results."""
    package = open_tree(tree).package.resolve()
    found: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory(prefix="patchkit-commands-") as folder, checked_out(against) as other:
        sides = [Side(REPOSITORY, Path(folder) / "ours"), Side(other, Path(folder) / "theirs")]
        for side in sides:
            side.folder.mkdir()
            side.prepare(package)
        for name in only or COMMANDS:
            if name != "floor":
                found[name] = ratios(sides, name, repeats)
        floor = over_floor(sides[0], repeats) if not only or "floor" in only else None
    table = Table("command", "wall", "CPU", title=f"ratio to {against}, median of {repeats} turns")
    for name, (wall, busy) in found.items():
        table.add_row(name, f"{wall:.3f}", f"{busy:.3f}")
    if floor is not None:
        table.add_row("apply, to libcst's floor", *(f"{ratio:.3f}" for ratio in floor))
    Console().print(table)
    sys.exit(any(busy > MOST for _, busy in found.values()))


if __name__ == "__main__":
    main()
