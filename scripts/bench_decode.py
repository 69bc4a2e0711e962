"""Compare the tokens of sglang trees on one GPU, where requests enter and end at chosen steps; `patchkit bench` times.

usage: python scripts/bench_decode.py --tree unpatched=A --tree patched=REPOSITORY@REF [--tree ...] --out FOLDER

Each tree has its own engine; engines are up at the same time on the same GPU. The first tree is the reference; for
trees named FIELD/NAME, such as 0.5.14/patched, the first one of each field. FOLDER gets ``results.json`` and
``table.txt``, which are rewritten after every scenario, and each engine's log. Exits 0 if every tree gives its
reference's tokens in every scenario and every faulty copy differs in at least one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import os
import platform
import queue
import shlex
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from decode_bench import models
from decode_bench.engines import Engine, EngineError
from decode_bench.options import site_option, tree_option
from decode_bench.results import Measured, Result, passed, result, table, write
from decode_bench.scenarios import Scenario, Server, scenarios
from decode_bench.trees import Contender, contender, faulty_copy, located, read_faults
from rich.console import Console

from patchkit.bench.watchdog import Watchdog
from patchkit.errors import PatchkitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# As many as fit into an H200's memory at eight layers.
ENGINES = 10
# Runs of a scenario in each engine: the second shows whether the first is reproducible.
RUNS = 2


@dataclass
class Group:
    """Scenarios that can share one set of engines, one engine per tree of a field."""

    field: str
    layers: int
    server: Server
    scenarios: list[Scenario] = dataclasses.field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the group's folder."""
        return "-".join(filter(None, (self.field, f"{self.layers}-layers", self.scenarios[0].name)))


def grouped(
    chosen: Sequence[Scenario],
    layers: Sequence[int],
    fields: Sequence[str] = ("",),
    wanted: Callable[[str, Scenario], bool] = lambda field, scenario: True,
) -> list[Group]:
    """Return the scenarios by field, number of layers and server.

    ``wanted`` returns whether a field's trees run a scenario.
    """
    groups: list[Group] = []
    for name, count, scenario in itertools.product(fields, layers, chosen):
        own = scenario.server.layers
        if wanted(name, scenario) and (own is None or count == layers[0]):
            key = (name, own or count, scenario.server)
            group = next((g for g in groups if (g.field, g.layers, g.server) == key), None)
            if group is None:
                groups.append(group := Group(*key))
            group.scenarios.append(scenario)
    return groups


@dataclass(eq=False)
class Field:
    """The engines of one group, by tree, with the error of each tree whose engine failed."""

    group: Group
    engines: dict[Contender, Engine]
    started: set[Contender] = dataclasses.field(default_factory=set)
    failures: dict[Contender, str] = dataclasses.field(default_factory=dict)

    def await_start(self, report: Callable[[str], None], about: dict[str, Any]) -> None:
        """Wait until every engine has started or failed."""
        for tree, engine in self.engines.items():
            try:
                start = engine.await_start()
            except EngineError as failure:
                self.failures[tree] = f"start: {failure}"
                report(f"{self.group.name}: {tree.name} did not start: {failure}")
                continue
            self.started.add(tree)
            about["machine"] |= start.versions
            report(f"{self.group.name}: {tree.name} up in {start.seconds:.1f} s")

    def measure(self, scenario: Scenario) -> list[Measured]:
        """Run one scenario in every engine, and return each result."""
        measured = {tree: Measured(tree, started=tree in self.started) for tree in self.engines}
        marks = {tree: engine.log.stat().st_size for tree, engine in self.engines.items()}
        for _ in range(RUNS):
            for tree, engine in self.engines.items():
                with self._failing(tree, scenario):
                    measured[tree].runs.append(
                        engine.run(scenario.requests, logprobs=scenario.logprobs, pause=scenario.pause)
                    )
        for tree, engine in self.engines.items():
            measured[tree].error = self.failures.get(tree)
            with engine.log.open(errors="replace") as log:
                log.seek(marks[tree])
                measured[tree].log = log.read()
            measured[tree].reached = engine.reached()
        return list(measured.values())

    def stop(self) -> None:
        """End every engine."""
        for engine in self.engines.values():
            engine.stop()

    @contextlib.contextmanager
    def _failing(self, tree: Contender, scenario: Scenario) -> Iterator[None]:
        # An engine that failed before fails again here; its first error is reported.
        try:
            yield
        except EngineError as failure:
            self.failures.setdefault(tree, f"{scenario.label}: {failure}")


def compare(
    groups: Sequence[Group],
    start: Callable[[Group], Field],
    *,
    trees: Callable[[Group], int],
    engines: int = ENGINES,
    report: Callable[[str], None],
    about: dict[str, Any],
) -> Iterator[list[Result]]:
    """Yield each scenario's results, one per tree, once it has run in all of them; groups run side by side.

    ``trees`` is the number of trees for which a group starts an engine; at most ``engines`` are up at the same time,
    but always those of one group.
    """
    waiting, up = deque(groups), list[Field]()
    # A field comes once all its scenarios have run.
    found = queue.SimpleQueue[list[Result] | Field | Exception]()

    def run(field: Field) -> None:
        try:
            field.await_start(report, about)
            for scenario in field.group.scenarios:
                report(f"{field.group.name}: {scenario.label}")
                measured = field.measure(scenario)
                found.put([result(scenario, field.group.layers, one, measured[0]) for one in measured])
            found.put(field)
        except Exception as error:
            found.put(error)

    try:
        while waiting or up:
            while waiting:
                if up and sum(len(each.engines) for each in up) + trees(waiting[0]) > engines:
                    break
                up.append(start(waiting.popleft()))
                threading.Thread(target=run, args=(up[-1],), daemon=True).start()
            fresh = found.get()
            if isinstance(fresh, Exception):
                raise fresh
            if isinstance(fresh, Field):
                fresh.stop()
                up.remove(fresh)
            else:
                yield fresh
    finally:
        for left in up:
            left.stop()


def write_checkpoint(folder: Path, layers: int) -> tuple[str, str]:
    """Write target and draft by ``checkpoint.py``, in a separate process, and return their folders."""
    script = Path(__file__).with_name("checkpoint.py")
    command: list[str | Path] = [sys.executable, script, folder, "--layers", str(layers)]
    written = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    target, draft = written.stdout.splitlines()
    return target, draft


def known_scenario(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the names of scenarios. Raise an error for an unknown one."""
    known = sorted({scenario.name for scenario in scenarios([1])})
    for value in values:
        if value.rpartition("/")[2] not in known:
            raise click.BadParameter(f"{value} is no scenario: name one of {', '.join(known)}.")
    return values


@click.command()
@tree_option("A tree to compare, a path or REPOSITORY@REF; the first is the reference.")
@click.option(
    "--faults", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON file that describes faulty copies of the trees, whose tokens must differ.",
)  # fmt: skip
@site_option
@click.option(
    "--checkpoints", type=click.Path(file_okay=False, resolve_path=True, path_type=Path), required=True,
    help="Folder for the checkpoints: 17 GB at 32 layers, 5 GB at 8; those that are there are used again.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder for results."
)
@click.option(
    "--scenario", "names", multiple=True, callback=known_scenario, metavar="[FIELD/]NAME",
    help="A scenario to run, by the trees of FIELD alone if one is named; without it, all that need no more GPUs than "
    "--gpus.",
)  # fmt: skip
@click.option(
    "--layers", multiple=True, type=int, default=(32, 8), show_default=True, help="Layers of the target."
)
@click.option(
    "--batch", "batches", multiple=True, type=int, default=(1, 8, 16), show_default=True,
    help="A batch size of the straight scenario.",
)  # fmt: skip
@click.option(
    "--gpus", type=click.IntRange(min=1), default=1, show_default=True, help="GPUs that an engine may take."
)
@click.option(
    "--engines", type=click.IntRange(min=1), default=ENGINES, show_default=True,
    help="Engines up at the same time, at most.",
)  # fmt: skip
@click.option("--start-limit", type=float, default=240, show_default=True, help="Seconds to start an engine.")
@click.option("--run-limit", type=float, default=60, show_default=True, help="Seconds for any one run.")
def main(
    *,
    places: dict[str, str],
    faults: Path | None,
    site: Path | None,
    checkpoints: Path,
    out: Path,
    names: tuple[str, ...],
    layers: tuple[int, ...],
    batches: tuple[int, ...],
    gpus: int,
    engines: int,
    start_limit: float,
    run_limit: float,
) -> None:
    """Compare the tokens of sglang trees side by side."""
    console = Console(stderr=True, width=240)
    out.mkdir(parents=True, exist_ok=True)
    trees = [contender(name, located(place, out / "trees" / name)) for name, place in places.items()]
    trees += [faulty_copy(fault, trees, out / "faulty") for fault in (read_faults(faults) if faults else [])]

    def wanted(field: str, scenario: Scenario) -> bool:
        return not names or not {scenario.name, f"{field}/{scenario.name}"}.isdisjoint(names)

    fields = list(dict.fromkeys(tree.field for tree in trees))
    chosen = [
        scenario
        for scenario in scenarios(batches)
        if (any(wanted(field, scenario) for field in fields) if names else scenario.server.gpus <= gpus)
    ]
    patches = {tree: tree.patches() for tree in trees}
    about: dict[str, Any] = {
        "command": shlex.join(sys.orig_argv),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
        "trees": [
            {
                "name": tree.name,
                "version": tree.version,
                "control": tree.control,
                "patches": patches[tree],
                "opt_in": tree.opt_in(),
            }
            for tree in trees
        ],
    }
    checkpoint = {}
    for count in layers if any(scenario.server.model is None for scenario in chosen) else ():
        console.log(f"checkpoint of {count} layers")
        checkpoint[count] = write_checkpoint(checkpoints, count)

    def entered(group: Group) -> list[Contender]:
        return [tree for tree in trees if tree.field == group.field]

    def start(group: Group) -> Field:
        if group.server.model is None:
            folders = checkpoint[group.layers]
        else:
            folders = models.write(models.MODELS[group.server.model], checkpoints)
        server = group.server
        return Field(
            group,
            {
                tree: Engine(
                    tree,
                    server.settings(*folders, patched=bool(patches[tree])),
                    server.environment,
                    site=site,
                    folder=out / "engines" / group.name / tree.name,
                    watchdog=watchdog,
                    start_limit=start_limit,
                    run_limit=run_limit,
                )
                for tree in entered(group)
            },
        )

    results: list[Result] = []
    # However this ends, as by a time limit, the engines must end too.
    with Watchdog() as watchdog:
        for fresh in compare(
            grouped(chosen, layers, fields, wanted),
            start,
            trees=lambda group: len(entered(group)),
            engines=engines,
            report=console.log,
            about=about,
        ):
            results += fresh
            write(out, about, results)
            console.print(table(fresh))
    Console(width=240).print(table(results))
    sys.exit(not passed(results))


if __name__ == "__main__":
    try:
        main()
    except PatchkitError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)
