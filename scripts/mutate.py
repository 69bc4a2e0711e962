"""Mutation test: insert one fault at a time in a copy of the checkout, and check that a test fails.

Mutants are made of rooms. Those of a server (the default) are ``patches``, from the code that edits insert and from
whole edits left out, and ``served``, from the Python of patchkit/runtime and patchkit/backends; an edit counts if it
changes the program of a tree that tests/differential drives. Rooms of the tool are ``audit``, ``patterns``, ``port``,
``revert`` and ``merge``. scripts/mutation/rooms.py lists each room's files and the tests that its mutants are tried
with. Exits 1 if fewer than 90 % are killed.

The same seed gives the same sample: at least one mutant of each edit and of each function, if COUNT allows, then
others at random. The checkout is not changed. Arguments after -- are passed to pytest.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import libcst as cst
import msgspec
from mutation.lane import Fate, Lane
from mutation.notes import Notes, Trial
from mutation.results import Result, Results
from mutation.rooms import DIFFERENTIAL, ROOMS
from mutation.sampling import sample
from mutation.trees import ReferenceTree, ReferenceTrees
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mutation.mutants import Mutant
    from mutation.rooms import Suite

CHECKOUT = Path(__file__).resolve().parents[1]
# Generous, since a mutant may be slow and others run at the same time.
PATIENCE = 2.0
GRACE = 30.0
HANGS = 3600.0


@dataclass
class Killers:
    """The tests that killed mutants so far, which likely kill others of the same place."""

    by_stratum: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def note(self, mutant: Mutant, test: str) -> None:
        """Record a test that killed a mutant."""
        self.by_stratum.setdefault(mutant.stratum, []).append(test)

    def likely(self, mutant: Mutant) -> tuple[str, ...]:
        """Return the tests to run first: those of the same edit or function, then those of the same file."""
        same = self.by_stratum.get(mutant.stratum, [])
        file = [
            test for key, tests in list(self.by_stratum.items()) if key[0] == mutant.file for test in tests
        ]
        return tuple(dict.fromkeys([*reversed(same), *sorted(file, key=file.count, reverse=True)]))


class Run:
    """The clean tests, the trees that they patch, and the lanes that run mutants."""

    def __init__(
        self,
        folder: Path,
        suites: Mapping[str, tuple[Suite, ...]],
        jobs: int,
        arguments: Sequence[str],
        report: Callable[[str], None],
    ) -> None:
        """Run all suites without a mutant; ``suites`` are those of each file's mutants."""
        self._suites = suites
        self._arguments = arguments
        self._notes = folder / "notes"
        report("running the tests without a mutant, to record their trees and durations")
        clean = Lane(CHECKOUT, folder / "clean")
        self.lanes = [Lane(CHECKOUT, folder / f"lane-{number}") for number in range(jobs)]
        self._limits: dict[Suite, float] = {}
        for suite in sorted({suite for each in suites.values() for suite in each}):
            # The trees are in the clean lane's scratch folder, which its next run would delete.
            trees = suite == DIFFERENTIAL
            fate = self._require_clean(clean if trees else self.lanes[0], suite, clean=True, trees=trees)
            self._limits[suite] = GRACE + PATIENCE * fate.seconds
            report(f"{' '.join(suite)}: {fate.seconds:.0f} s")
        notes = msgspec.msgpack.decode(self._notes.read_bytes(), type=Notes)
        references = [
            ReferenceTree(name, open_tree(Path(tree.before)), tree.patches)
            for name, tree in notes.trees.items()
        ]
        self._trees = ReferenceTrees(references, clean.checkout)
        self._killers = Killers()

    def counts(self, mutant: Mutant) -> bool:
        """Return whether a mutant changes the program."""
        return not mutant.is_of_patch or bool(self._trees.changed_by(mutant))

    def test(self, mutant: Mutant, lane: Lane) -> Result:
        """Run the suites on a mutant until one fails."""
        trial = self._trial(lane, first=self._killers.likely(mutant))
        with lane.broken(mutant):
            for suite in self._suites[mutant.file]:
                fate = lane.test(trial, suite, self._arguments, self._limits[suite])
                if fate.killed:
                    self._killers.note(mutant, fate.test)
                    break
        return Result(mutant, suite[0] if fate.killed else "", fate)

    def _trial(self, lane: Lane, **settings: Any) -> Trial:
        verdict = str(lane.folder / "verdict")
        return Trial(str(lane.checkout), verdict, str(self._notes), **settings)

    def _require_clean(self, lane: Lane, suite: Suite, **settings: Any) -> Fate:
        fate = lane.test(self._trial(lane, **settings), suite, self._arguments, HANGS)
        if fate.killed:
            raise SystemExit(f"mutate: {fate.test} fails without a mutant ({fate.message}); fix that first.")
        return fate


def test_all(run: Run, chosen: Iterator[Mutant], results: Results, done: Callable[[Result], None]) -> None:
    """Run the mutants, one at a time in each lane, and prepare the next ones meanwhile."""
    numbered = enumerate(chosen)
    lock = threading.Lock()
    stopped = threading.Event()

    def work(lane: Lane) -> None:
        try:
            while not stopped.is_set():
                with lock:
                    turn, mutant = next(numbered, (0, None))
                if mutant is None:
                    return
                result = run.test(mutant, lane)
                with lock:
                    if stopped.is_set():
                        return
                    results.by_turn[turn] = result
                    done(result)
        except BaseException:
            stopped.set()
            raise

    with ThreadPoolExecutor(len(run.lanes)) as pool:
        try:
            for finished in [pool.submit(work, lane) for lane in run.lanes]:
                finished.result()
        finally:
            stopped.set()
            for lane in run.lanes:
                lane.stop()


@click.command(help=__doc__)
@click.option("--count", default=200, show_default=True, help="Number of mutants.")
@click.option("--seed", default=0, show_default=True, help="Seed of the sample.")
@click.option(
    "--jobs", default=os.cpu_count() or 1, show_default="cores", help="Mutants to run at the same time."
)
@click.option(
    "--room",
    "rooms",
    type=click.Choice(list(ROOMS)),
    multiple=True,
    default=("patches", "served"),
    show_default=True,
    help="What to make mutants of; may be repeated.",
)
@click.option("--only", default="", metavar="TEXT", help="Only mutants whose name contains TEXT.")
@click.option("--out", type=click.Path(path_type=Path), help="Write every result to FILE as JSON.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- PYTEST ARGUMENTS]")
def main(
    *,
    count: int,
    seed: int,
    jobs: int,
    rooms: tuple[str, ...],
    only: str,
    out: Path | None,
    arguments: tuple[str, ...],
) -> None:
    """Run."""
    # Raises SystemExit, which ends the running tests.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("mutate: stopped by a signal."))
    # Syntax trees are immutable, so they can be cached for every plan.
    cst.parse_module = functools.cache(cst.parse_module)
    named: list[Mutant] = []
    suites: dict[str, tuple[Suite, ...]] = {}
    for room in dict.fromkeys(rooms):
        found = [mutant for mutant in ROOMS[room].mutants(CHECKOUT) if only in mutant.name]
        suites |= {mutant.file: ROOMS[room].suites for mutant in found}
        named += found
    if not named:
        raise SystemExit(f"mutate: no mutant's name has {only!r}.")
    results = Results(seed)
    console = Console(stderr=True)
    columns = (TextColumn("{task.completed} of {task.total} {task.description}"), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="mutate-") as folder,
        Progress(*columns, console=console) as progress,
    ):
        run = Run(Path(folder).resolve(), suites, jobs, arguments, progress.console.print)
        task = progress.add_task("mutants", total=min(count, len(named)))

        def done(result: Result) -> None:
            progress.advance(task)
            how = f"killed by {result.fate.test}" if result.fate.killed else "survived"
            line = f"{result.mutant.name}: {how} ({result.fate.seconds:.0f} s)"
            progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
            if out is not None:
                results.write(out)

        chosen = sample(named, lambda mutant: mutant.stratum, run.counts, count, seed)
        test_all(run, chosen, results, done)
    results.show(Console())
    sys.exit(0 if results.passed else 1)


if __name__ == "__main__":
    main()
