"""Serve an unpatched and a patched copy of a tree, or copies of two trees, by one launch command; compare them."""

from __future__ import annotations

import datetime
from functools import partial
from typing import TYPE_CHECKING

from patchkit.bench.command import batch_of, most_tokens, server_command, usual_prompts
from patchkit.bench.compare import Race
from patchkit.bench.gpus import all_gpus, host_load, require_idle, taken_gpus
from patchkit.bench.recorded import Benchmark, BenchTree
from patchkit.bench.server import ServerError, TreeServer
from patchkit.bench.watchdog import Watchdog
from patchkit.commands.apply import apply
from patchkit.commands.revert import revert
from patchkit.errors import PatchkitError, TreeError, UsageError
from patchkit.plan.planner import Planner
from patchkit.transaction.revert import in_code
from patchkit.tree.scratch import copied, scratch
from patchkit.tree.sglang import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from patchkit.bench.command import LaunchCommand
    from patchkit.bench.compare import Workload
    from patchkit.bench.gpus import GpuLoad
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree

# Tokens of the cache, where the launch command names no number: two servers share a GPU's memory.
_ROOM = 40960
_ROOM_OPTION = "--max-total-tokens"


def bench(
    command: str,
    trees: Sequence[CheckoutTree],
    patches: PatchSet,
    ids: Sequence[str],
    workload: Workload,
    *,
    watch: Callable[[str], None] = lambda _: None,
) -> Benchmark:
    """Compare one tree unpatched and with ``ids`` (default: every default patch that fits), or two trees as they are.

    Only copies in a temporary folder are changed and imported. However this ends, all that it started is killed. Raise
    UsageError for a command that starts no server here, TreeError if a GPU is in use, ServerError if a server fails.
    """
    launched = server_command(command)
    installed_gpus = all_gpus()
    loads = taken_gpus(installed_gpus, launched.environment, *launched.gpus)
    require_idle(loads)
    date, before = datetime.datetime.now(datetime.timezone.utc), host_load(installed_gpus, loads)
    options, notes = _room(launched, workload)
    with scratch() as folder, Watchdog(folder) as watchdog:
        watch("copying and patching")
        both = trees[0], trees[-1]
        copies = [_copied(tree, folder / str(side)) for side, tree in enumerate(both)]
        if len(trees) == 1:
            _patch(trees[0], copies, patches, ids)
        names = _names(trees)
        served = [
            BenchTree(name, str(tree.package), tree.version, in_code(copy, Planner(copy, patches)))
            for name, tree, copy in zip(names, both, copies, strict=True)
        ]

        def launch(side: int, until: float) -> TreeServer:
            place = copies[side].package.parent
            made = partial(TreeServer, names[side], launched, options, place, watchdog, patched=side == 1)
            waiting = partial(watch, f"starting the {names[side]} server")
            server = made()
            try:
                server.await_start(until, waiting)
            except ServerError:
                if not server.port_was_taken:
                    raise
                server = made()
                server.await_start(until, waiting)
            return server

        def load() -> tuple[GpuLoad, ...]:
            return taken_gpus(all_gpus(), launched.environment, *launched.gpus)

        race = Race(launch, workload, load, folder / "traces", watch)
        batches = race.run(loads)
        after = host_load(all_gpus(), loads)
    if not race.beside:
        notes += (
            "The servers ran one after the other: the interval leaves out what differs from start to start.",
        )
    return Benchmark(
        command=command,
        date=date.isoformat(timespec="seconds"),
        trees=(served[0], served[1]),
        gpus=tuple(gpu.name for gpu in loads),
        host=(before, after),
        beside=race.beside,
        batches=batches,
        notes=notes,
    )


def _room(command: LaunchCommand, workload: Workload) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the options that let both servers fit into memory, and the note that tells of them."""
    if command.value(_ROOM_OPTION) is not None:
        return (), ()
    given = workload.prompts
    batches = [
        usual_prompts(batch, of_text=False) if given is None else batch_of(given, batch)
        for batch in workload.batches
    ]
    room = str(max(_ROOM, 2 * most_tokens(batches, workload.new_tokens)))
    note = f"Both servers ran with {_ROOM_OPTION} {room}, to leave each other memory."
    return (_ROOM_OPTION, room), (note,)


def _copied(tree: CheckoutTree, folder: Path) -> CheckoutTree:
    if tree.package.name != NAME:
        raise UsageError(f"{tree.package} cannot be imported as {NAME}", advice="rename it")
    folder.mkdir()
    return copied(tree, folder, with_own=True)


def _patch(tree: CheckoutTree, copies: Sequence[CheckoutTree], patches: PatchSet, ids: Sequence[str]) -> None:
    """Make the first of two copies of a tree unpatched, and the second patched."""
    unpatched, patched = copies
    is_patched = bool(in_code(unpatched, Planner(unpatched, patches)))
    for copy in (unpatched, patched) if ids else (unpatched,):
        if is_patched:
            try:
                revert(copy, patches)
            except PatchkitError as error:
                raise TreeError(
                    f"{tree.package} is patched, and no copy of it can be reverted",
                    reasons=[error.what],
                    advice="name two trees, an unpatched one first: --tree A --tree B",
                ) from None
    if ids or not is_patched:
        apply(patched, patches, ids, allow_dirty=True, runtime="vendored")


def _names(trees: Sequence[CheckoutTree]) -> tuple[str, str]:
    if len(trees) == 1:
        return "unpatched", "patched"
    first, second = (tree.root.name for tree in trees)
    return (first, second) if first != second else ("first", "second")
