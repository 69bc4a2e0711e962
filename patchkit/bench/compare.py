"""Time two servers in alternating pairs of runs, and compare the tokens of each request."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from patchkit.bench.command import batch_of, usual_prompts
from patchkit.bench.figures import accept_length, fastest, gain_of, judged, resampled_interval
from patchkit.bench.gpus import fits_beside
from patchkit.bench.recorded import BatchComparison, StepCost
from patchkit.bench.server import ServerError
from patchkit.bench.trace import profile, read_events, recurring

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from patchkit.bench.command import Prompts
    from patchkit.bench.figures import Reply
    from patchkit.bench.gpus import GpuLoad
    from patchkit.bench.server import TreeServer
    from patchkit.bench.trace import StepProfile

# Runs of each batch that are not timed: kernels compile and caches fill, and tokens are compared.
WARM_UP = 2
# Pairs of runs of each batch, at most.
_PAIRS = 100
# Batches in a profile: the prefill, and enough decode steps after the profiler's own start-up.
_PROFILED = 28
# Seconds that a profile is likely to take, and for the memory of a server that has ended to be free.
_PROFILING, _FREED = 15.0, 30.0
_MEMORY = re.compile(r"(?:out of|not enough|insufficient) memory|mem[-_]fraction", re.IGNORECASE)
# Waits and copies that differ by less in each step are the same.
_FEW = 0.25


class Workload(NamedTuple):
    """What both servers do: batches of ``prompts``, the usual ones if None, within ``seconds`` of the first start."""

    batches: Sequence[int]
    new_tokens: int
    seconds: float
    prompts: Prompts | None = None
    profiled: bool = False


@dataclass
class _Timed:
    """The runs of one server with one batch: seconds of each, and of an answer of one token before it."""

    prompts: Prompts
    seconds: list[float] = field(default_factory=list)
    first_tokens: list[float] = field(default_factory=list)
    replies: list[tuple[Reply, ...]] = field(default_factory=list)
    profile: StepProfile | None = None

    @property
    def runs_ms(self) -> list[float]:
        """The milliseconds of a step in each run."""
        # All start together, so that the last one to end takes part in each step.
        steps = max(reply.steps or len(reply.tokens) - 1 for reply in self.replies[0])
        first = fastest(self.first_tokens)
        return [(seconds - first) / steps * 1000 for seconds in self.seconds]

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return sum(len(reply.tokens) for reply in self.replies[0]) / fastest(self.seconds)


class Race:
    """Two servers and one workload; ``launch`` starts that of the first (0) or second tree (1) until a time."""

    def __init__(
        self,
        launch: Callable[[int, float], TreeServer],
        workload: Workload,
        load: Callable[[], tuple[GpuLoad, ...]],
        traces: Path,
        watch: Callable[[str], None],
    ) -> None:
        self._launch, self._workload, self._load = launch, workload, load
        self._traces, self._watch = traces, watch
        self._began = time.monotonic()
        self._until = self._began + workload.seconds
        self._sides: list[dict[int, _Timed]] = [{}, {}]
        self._turns = _PAIRS
        self.beside = False
        """Whether both servers were up at the same time."""

    def run(self, before: tuple[GpuLoad, ...]) -> tuple[BatchComparison, ...]:
        """Time both, side by side if they fit into the GPU's memory, else one after the other.

        ``before`` is the load of the GPUs without them.
        """
        first = self._launch(0, self._until)
        second = None
        if fits_beside(before, self._load()):
            try:
                second = self._launch(1, self._until)
            except ServerError as error:
                if _MEMORY.search(str(error)) is None:
                    raise
        if second is not None:
            self.beside = True
            self._time({0: first, 1: second}, self._until)
            second.stop()
            first.stop()
        else:
            self._time({0: first}, self._began + self._workload.seconds / 2)
            first.stop()
            self._await_memory(before)
            second = self._launch(1, self._until)
            self._time({1: second}, self._until)
            second.stop()
        return tuple(self._compared(batch) for batch in self._workload.batches)

    def _await_memory(self, before: tuple[GpuLoad, ...]) -> None:
        until = time.monotonic() + _FREED
        while time.monotonic() < until:
            if not any(new.used > old.used + 1024 for old, new in zip(before, self._load(), strict=False)):
                return
            time.sleep(1)

    def _time(self, servers: dict[int, TreeServer], until: float) -> None:
        """Run all batches in these servers, in turn, then profile them."""
        for side, server in servers.items():
            self._warm_up(side, server)
        profiles = len(servers) * len(self._workload.batches) if self._workload.profiled else 0
        longest = 0.0
        for turn in range(self._turns):
            began = time.monotonic()
            if turn and began + longest > until - _PROFILING * profiles:
                break
            for batch in self._workload.batches:
                self._watch(f"batch {batch}, pair {turn + 1}")
                # Each goes first as often as the other, so that a drift of the clock rate favours neither.
                for side in sorted(servers, reverse=turn % 2 == 1):
                    # An idle scheduler takes a core, and the caches and the clock rate of its neighbours.
                    with ExitStack() as stack:
                        for other in servers.keys() - {side}:
                            stack.enter_context(servers[other].paused())
                        self._run(side, servers[side], batch, is_timed=True)
            longest = max(longest, time.monotonic() - began)
        self._turns = min(len(timed.seconds) for side in servers for timed in self._sides[side].values())
        for side, server in servers.items() if profiles else ():
            for batch in self._workload.batches:
                self._watch(f"batch {batch}, profile")
                self._profile(side, server, batch)

    def _warm_up(self, side: int, server: TreeServer) -> None:
        of_text = self._workload.prompts is None and server.takes_text(self._until)
        for batch in self._workload.batches:
            self._watch(f"batch {batch}, warm-up")
            given = self._workload.prompts
            prompts = usual_prompts(batch, of_text=of_text) if given is None else batch_of(given, batch)
            self._sides[side][batch] = _Timed(prompts)
            for _ in range(WARM_UP):
                self._run(side, server, batch)

    def _run(self, side: int, server: TreeServer, batch: int, *, is_timed: bool = False) -> None:
        timed = self._sides[side][batch]
        first = server.generate(timed.prompts, 1, self._until).seconds
        seconds, replies = server.generate(timed.prompts, self._workload.new_tokens, self._until)
        timed.replies.append(replies)
        if is_timed:
            timed.first_tokens.append(first)
            timed.seconds.append(seconds)

    def _profile(self, side: int, server: TreeServer, batch: int) -> None:
        folder = self._traces / f"{side}-{batch}"
        folder.mkdir(parents=True)
        server.start_profile(folder, _PROFILED, self._until)
        timed = self._sides[side][batch]
        server.generate(timed.prompts, self._workload.new_tokens, self._until)
        # That of the first rank.
        for trace in sorted(folder.glob("*.json.gz"))[:1]:
            events = read_events(trace)
            timed.profile = profile(events, recurring(events, _PROFILED))

    def _compared(self, batch: int) -> BatchComparison:
        first, second = (side[batch] for side in self._sides)
        tokens, difference = judged(first.replies, second.replies)
        # The first server has more runs than the second if it ran alone for longer.
        runs = tuple(zip(*zip(first.runs_ms, second.runs_ms, strict=False), strict=True))

        def step(side: int, pairs: Sequence[int]) -> float:
            return fastest([runs[side][pair] for pair in pairs])

        def ratio_of(pairs: Sequence[int]) -> float:
            return step(1, pairs) / step(0, pairs)

        every = range(len(runs[0]))
        ratio, interval = ratio_of(every), resampled_interval(len(every), ratio_of)
        return BatchComparison(
            batch=batch,
            step_ms=(step(0, every), step(1, every)),
            tokens_per_second=(first.rate, second.rate),
            accept_length=(accept_length(first.replies[0]), accept_length(second.replies[0])),
            pairs=len(every),
            runs_ms=(runs[0], runs[1]),
            ratio=ratio,
            interval=interval,
            gain=gain_of(ratio, interval),
            tokens=tokens,
            difference=difference,
            costs=(_cost(first), _cost(second)),
            freed=_freed(first.profile, second.profile) if first.profile and second.profile else {},
        )


def _cost(timed: _Timed) -> StepCost | None:
    found = timed.profile
    if found is None:
        return None
    # The profiler lengthens a step, and not the GPU's part of it.
    busy = min(1.0, found.busy_milliseconds / fastest(timed.runs_ms))
    return StepCost(busy, found.synchronisations, found.copies_to_host, found.launches)


def _freed(first: StepProfile, second: StepProfile) -> dict[str, tuple[float, float]]:
    counted = [chain(p.synchronisation_sources.items(), p.copy_sources.items()) for p in (first, second)]
    before, after = map(dict, counted)
    less = {name: (count, after.get(name, 0.0)) for name, count in before.items()}
    return {name: counts for name, counts in less.items() if counts[0] - counts[1] > _FEW}
