"""``patchkit bench``: serve an unpatched and a patched copy with one launch command, and compare time and tokens."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from patchkit.cli import console, options
from patchkit.errors import UsageError
from patchkit.findings.plural import counted
from patchkit.findings.printable import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.bench.recorded import BatchComparison, Benchmark


@options.command(
    "bench",
    click.argument("launch", metavar="LAUNCH_COMMAND"),
    click.argument("ids", nargs=-1, metavar="[PATCH...]"),
    click.option(
        "--tree",
        "trees",
        multiple=True,
        metavar="PATH",
        help="Serve copies of the tree at PATH (default: the installed sglang); of two, compare the second to the "
        "first.",
    ),
    click.option(
        "--batch",
        "batches",
        multiple=True,
        type=click.IntRange(min=1),
        default=(1, 8),
        show_default=True,
        help="Requests side by side; may be repeated.",
    ),
    click.option(
        "--new-tokens",
        type=click.IntRange(min=16),
        default=256,
        show_default=True,
        help="Tokens of each answer.",
    ),
    click.option(
        "--prompts",
        type=options.FILE,
        metavar="FILE",
        help="Read prompts from FILE: one in each line, or a JSON list of texts or of lists of token ids.",
    ),
    click.option(
        "--time-limit",
        type=click.IntRange(min=1),
        default=600,
        show_default=True,
        metavar="SECONDS",
        help="The time for starts and runs together.",
    ),
    options.flag("--profile profiled", "Also count what the GPU and the host do in a step."),
    options.folders,
    options.as_json,
)
def command(
    given: options.Target,
    *,
    launch: str,
    trees: Sequence[str],
    batches: Sequence[int],
    new_tokens: int,
    prompts: Path | None,
    time_limit: int,
    profiled: bool,
) -> int:
    """LAUNCH_COMMAND, in quotes, is as you start the server. Two copies of the tree, one unpatched and one with the
    named patches (default: all that apply makes), are served by it on free ports, beside each other if they fit into
    memory. Their runs alternate. Prints the time of a decode step, the ratio of paired runs with its 95 % interval, and
    whether each request gets the same tokens. The tree itself is only read. Exit code 1 if tokens differ.
    """
    from patchkit.bench.command import read_prompts
    from patchkit.bench.compare import Workload
    from patchkit.commands.bench import bench

    if len(trees) > 2:
        raise UsageError("more than two trees are named", advice="name one or two with --tree")
    if len(trees) == 2 and given.ids:
        raise UsageError(
            f"{given.ids[0]}: two trees are compared as they are", advice="name one tree, or no patch"
        )
    given = given._replace(words=trees[:1], installed=not trees)
    opened = [given._replace(tree=tree).open() for tree in trees or (None,)]
    patches = given.patches()
    patches.named(given.ids)
    read = None if prompts is None else read_prompts(prompts)
    workload = Workload(tuple(dict.fromkeys(batches)), new_tokens, time_limit, read, profiled)
    began = time.monotonic()
    with console.progress() as shown:

        def watch(what: str) -> None:
            if shown is not None:
                shown(f"seconds: {what}", min(time_limit, int(time.monotonic() - began)), time_limit)

        benchmark = bench(launch, opened, patches, given.ids, workload, watch=watch)
    if given.as_json:
        console.emit(benchmark)
    else:
        say(benchmark, new_tokens)
    return int(any(batch.tokens == "differ" for batch in benchmark.batches))


def say(benchmark: Benchmark, new_tokens: int) -> None:
    """Print an answer for people, of runs of so many new tokens."""
    for tree in benchmark.trees:
        patched = counted(len(tree.patches), "patch") if tree.patches else "no patches"
        version = tree.version or "version unknown"
        console.say(f"[bold]{escaped(tree.name)}[/]  {escaped(tree.package)} ({escaped(version)}), {patched}")
    for gpu in benchmark.gpus:
        console.say(escaped(gpu))
    for moment, host in zip(("before", "after"), benchmark.host or (), strict=False):
        others = counted(host.other_gpus, "other GPU")
        console.say(f"{moment}: {host.load:.1f} processes ran on {host.cores} cores, and {others} in use")
    for batch in benchmark.batches:
        requests = counted(batch.batch, "request")
        console.say(
            f"\n[bold]{requests}[/], {new_tokens} new tokens each, {counted(batch.pairs, 'pair')} of runs"
        )
        _say_rows(batch, [tree.name for tree in benchmark.trees])
        interval = (
            f", 95 % interval {batch.interval[0]:.3f} to {batch.interval[1]:.3f}" if batch.interval else ""
        )
        console.say(f"  ratio {batch.ratio:.3f}{interval}")
        console.say(f"  difference: {batch.gain}")
        console.say(f"  tokens: {_tokens(batch)}")
        for source, (before, after) in batch.freed.items():
            console.say(f"  freed in each step: {escaped(source)}, {before:.1f} to {after:.1f}")
    for note in benchmark.notes:
        console.say(f"\n{escaped(note)}")


def _say_rows(batch: BatchComparison, names: Sequence[str]) -> None:
    rows: list[tuple[str, Sequence[str]]] = [
        ("", names),
        ("ms for each step", [f"{value:.3f}" for value in batch.step_ms]),
        ("tokens per second", [f"{value:.1f}" for value in batch.tokens_per_second]),
    ]
    if None not in batch.accept_length:
        rows.append(("accept length", [f"{value:.2f}" for value in batch.accept_length if value is not None]))
    costs = [cost for cost in batch.costs if cost is not None]
    if len(costs) == len(names):
        rows += [
            ("GPU busy", [f"{cost.gpu_busy:.0%}" for cost in costs]),
            ("host waits for each step", [f"{cost.host_waits:.1f}" for cost in costs]),
            ("copies to the host", [f"{cost.copies_to_host:.1f}" for cost in costs]),
            ("launches", [f"{cost.launches:.0f}" for cost in costs]),
        ]
    width = max(len(name) for name, _ in rows)
    wide = max(len(value) for _, values in rows for value in values)
    for name, values in rows:
        console.say(f"  {name:{width}}  {escaped('  '.join(f'{value:>{wide}}' for value in values))}")


def _tokens(batch: BatchComparison) -> str:
    if batch.difference is None:
        return f"[green]{batch.tokens}[/]"
    difference = batch.difference
    where = f"first in request {difference.request + 1} at token {difference.position + 1}"
    requests = f"{difference.requests} of {difference.of} requests, {where}"
    if batch.tokens == "differ":
        return f"[red]differ[/] in {requests}"
    return f"not judged, since two runs of the first tree differ in {requests}"
