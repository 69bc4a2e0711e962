"""Measure the attention metadata of a graph replay: each tree's own operations, and patchkit's single launch.

usage: python scripts/bench_metadata.py --tree unpatched=A --tree upstream=B --out FOLDER

Requires a GPU, torch and Triton. The backend classes of every tree run on hand-built objects, so that nothing else
of sglang is needed; patchkit fills the buffers of the last tree's backend. First all specified elements are
compared with every tree's, then all contenders alternate on the same batches. FOLDER gets ``results.json`` and
``table.txt``. Exits 0 if nothing differs and a fill is one launch without a wait.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import shlex
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import torch
import triton
from metadata_bench.backends import (
    MODES,
    Contender,
    Mode,
    Pool,
    Replay,
    Settings,
    bytes_moved,
    differences,
    fallback_differs,
)
from metadata_bench.measure import Activity, Ceilings, Spread, activity, device_time, ratio, take_turns
from metadata_bench.stand_ins import import_tree
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from metadata_bench.stand_ins import TreeModules

OURS = "patchkit"
# Batch and context at which launches are counted, which depend on neither.
COUNTED = (8, 8192)
# Batches that alternate, so that no replay finds its slots in a cache.
ROTATION = 8
_WIDTH = 200


@dataclass(frozen=True)
class Case:
    """The batch and mode that all contenders run."""

    mode: Mode
    swa: bool
    batch: int
    context: int


@dataclass(frozen=True)
class Result:
    """One contender in one case; times in microseconds per replay."""

    mode: str
    swa: bool
    batch: int
    context: int
    contender: str
    events: Spread | None
    host: Spread | None
    # The ratio to patchkit's time per round, between events.
    ratio: Spread | None
    activity: Activity | None
    # For patchkit only: GPU time without the host, and the lower bound from the bytes moved.
    device: float | None
    floor: float | None
    differences: list[str]


class Bench:
    """All cases of one mode, with and without a sliding window."""

    def __init__(
        self, trees: dict[str, TreeModules], settings: Settings, *, rounds: int, repeats: int
    ) -> None:
        self._trees = trees
        self._settings = settings
        self._pool = Pool.of(settings)
        self._rounds = rounds
        self._repeats = repeats

    def run(self, mode: Mode, ceilings: Ceilings, *, swa: bool) -> list[Result]:
        """Measure every batch and context."""
        trees = {
            name: Contender(modules, mode, self._pool, self._settings, swa=swa)
            for name, modules in self._trees.items()
        }
        ours = Contender([*self._trees.values()][-1], mode, self._pool, self._settings, swa=swa)
        return [
            result
            for batch in self._settings.batches
            for context in self._settings.contexts
            for result in self._case(Case(mode, swa, batch, context), trees, ours, ceilings)
        ]

    def _case(
        self, case: Case, trees: dict[str, Contender], ours: Contender, ceilings: Ceilings
    ) -> list[Result]:
        replays = [Replay.of(case.mode, case.batch, case.context, self._settings) for _ in range(ROTATION)]
        ours.capture(replays[0])
        calls = {OURS: ours.by_patchkit(replays)}
        able = {name: tree for name, tree in trees.items() if tree.capture(replays[0])}
        calls |= {name: tree.by_tree(replays) for name, tree in able.items()}
        different: dict[str, set[str]] = {name: set() for name in calls}
        if fallback_differs(ours, calls[OURS], case.batch):
            different[OURS].add("torch")
        for number, replay in enumerate(replays):
            calls[OURS](number)
            for name, tree in able.items():
                calls[name](number)
                our_metadata, tree_metadata = ours.metadata(case.batch), tree.metadata(case.batch)
                found = differences(
                    our_metadata, tree_metadata, replay, case.mode, page_size=self._settings.page_size
                )
                different[name].update(found)
        torch.cuda.set_sync_debug_mode("error")
        calls[OURS](0)
        torch.cuda.set_sync_debug_mode("default")
        timings = take_turns(calls, self._rounds, self._repeats)
        floor = bytes_moved(case.mode, replays[0], self._settings.page_size, swa=case.swa)
        return [
            Result(
                mode=case.mode.name,
                swa=case.swa,
                batch=case.batch,
                context=case.context,
                contender=name,
                events=Spread.of(timing.events),
                host=Spread.of(timing.host),
                ratio=ratio(timing.events, timings[OURS].events),
                activity=activity(calls[name]) if (case.batch, case.context) == COUNTED else None,
                device=device_time(calls[name]) if name == OURS else None,
                floor=floor / ceilings.bytes_per_us if name == OURS else None,
                differences=sorted(different[name]),
            )
            for name, timing in timings.items()
        ]


def table(results: list[Result], ceilings: Ceilings) -> Table:
    """Return one line per result."""
    columns = (
        "mode",
        "SWA",
        "batch",
        "context",
        "who",
        "launches",
        "waits",
        "us",
        "host us",
        "ratio",
        "device us",
    )
    title = f"{ceilings.bytes_per_us / 1e6:.2f} TB/s, empty kernel {ceilings.empty_kernel_us:.2f} us"
    output = Table(*columns, "floor us", "differs", box=None, title=title)
    for result in results:
        act = result.activity
        ratio_ = result.ratio
        output.add_row(
            result.mode,
            "yes" if result.swa else "",
            str(result.batch),
            str(result.context),
            result.contender,
            f"{act.kernels + act.copies:g}" if act else "",
            f"{act.synchronisations:g}" if act else "",
            f"{result.events.median:.1f}" if result.events else "",
            f"{result.host.median:.1f}" if result.host else "",
            f"{ratio_.median:.2f} [{ratio_.lowest:.2f}, {ratio_.highest:.2f}]" if ratio_ else "",
            f"{result.device:.2f}" if result.device else "",
            f"{result.floor:.3f}" if result.floor else "",
            ", ".join(result.differences),
        )
    return output


def about(ceilings: Ceilings, settings: Settings, trees: dict[str, TreeModules]) -> dict[str, Any]:
    """Return the conditions of the run."""
    gpu = torch.cuda.get_device_properties(settings.device)
    return {
        "command": shlex.join(sys.orig_argv),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {
            "gpu": gpu.name,
            "multiprocessors": gpu.multi_processor_count,
            "system": platform.platform(),
            "cores": os.cpu_count(),
        },
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "triton": triton.__version__,
        },
        "ceilings": asdict(ceilings),
        "page_size": settings.page_size,
        "max_context": settings.max_context,
        "trees": list(trees),
    }


def passed(results: list[Result]) -> bool:
    """Return whether nothing differs and every counted fill is one launch without a wait."""
    counted = [result.activity for result in results if result.contender == OURS and result.activity]
    single = all(act.kernels == 1 and act.copies == 0 and act.synchronisations == 0 for act in counted)
    return bool(counted) and single and not any(result.differences for result in results)


def _named(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Path]:
    pairs = dict(value.partition("=")[::2] for value in values)
    if not all(pairs.values()):
        raise click.BadParameter("write NAME=PATH, as in --tree unpatched=/src/sglang.")
    return {name: Path(path) for name, path in pairs.items()}


@click.command(help=__doc__)
@click.option(
    "--tree", "paths", multiple=True, required=True, callback=_named, help="NAME=PATH; may be repeated."
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True)
@click.option("--batch", "batches", multiple=True, type=int, default=(1, 8, 32, 128, 256), show_default=True)
@click.option(
    "--context", "contexts", multiple=True, type=int, default=(1024, 8192, 32768, 131072), show_default=True
)
@click.option("--page-size", type=int, default=64, show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--repeats", type=click.IntRange(min=1), default=100, show_default=True, help="Calls a round.")
def main(
    *,
    paths: dict[str, Path],
    out: Path,
    batches: tuple[int, ...],
    contexts: tuple[int, ...],
    page_size: int,
    rounds: int,
    repeats: int,
) -> None:
    """Measure every mode, batch and context."""
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    settings = Settings(torch.device("cuda", 0), batches, contexts, page_size)
    trees = {name: import_tree(path) for name, path in paths.items()}
    ceilings = Ceilings.measured(settings.device)
    bench = Bench(trees, settings, rounds=rounds, repeats=repeats)
    results: list[Result] = []
    console = Console(stderr=True, width=_WIDTH)
    for mode in MODES:
        for swa in (False, True):
            fresh = bench.run(mode, ceilings, swa=swa)
            results += fresh
            content = about(ceilings, settings, trees) | {"results": [asdict(result) for result in results]}
            (out / "results.json").write_text(json.dumps(content, indent=1))
            counted = [result for result in fresh if (result.batch, result.context) == COUNTED]
            console.print(table(counted, ceilings))
    with (out / "table.txt").open("w") as file:
        Console(file=file, width=_WIDTH).print(table(results, ceilings))
    Console(width=_WIDTH).print(table([result for result in results if result.contender == OURS], ceilings))
    sys.exit(0 if passed(results) else 1)


if __name__ == "__main__":
    main()
