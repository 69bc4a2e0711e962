"""Write all results to a JSON file and a table, after every scenario."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from patchkit.bench.figures import Spread, TokenDifference, accept_length, first_difference, pair_ratios

from .figures import distinct_tokens, largest_logprob_difference, milliseconds_per_step, output_rates

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.bench.trace import StepProfile

    from .figures import Run
    from .scenarios import Scenario
    from .trees import Contender

_RETRACTED = re.compile(r"#retracted_reqs: (\d+)")
# Untimed runs: the first one compiles and fills caches.
WARM_UP = 1
# Wide enough for every column.
_WIDTH = 240


@dataclass(frozen=True)
class Result:
    """The result of one tree in one scenario."""

    scenario: str
    # The names of the model, the attention backend, and the speculative algorithm.
    family: str
    backend: str
    algorithm: str
    batch: int | None
    layers: int
    tree: str
    control: bool
    # Whether the engine started.
    started: bool
    # The error, if there was one; measurements before it are kept.
    error: str | None
    runs: int
    # Seconds from a run's first request to its last response.
    seconds: Spread | None
    # Milliseconds per decode step: one median per run.
    step: Spread | None
    # Its ratio to the first tree's, by pair.
    ratio: Spread | None
    # Output tokens a second of a whole run in which requests arrive, and the same over the first tree's.
    rate: Spread | None
    rate_ratio: Spread | None
    # Milliseconds of the steps that the profile is of, in the runs without it: contexts grow from step to
    # step, and the GPU's part of a step with them.
    profiled_step: Spread | None
    # None if there is nothing to compare.
    identical: bool | None
    # Whether every run of this tree gave the tokens of its first.
    reproducible: bool
    difference: TokenDifference | None
    logprob_difference: float | None
    accept_length: float | None
    distinct_tokens: int
    # Requests retracted because the KV cache was full, from the engine's log.
    retracted: int
    # Share of a profiled step in which the GPU runs something: busy time from the profile, over the same
    # steps without it.
    gpu_busy: float | None
    profile: StepProfile | None
    # Patches of which the engine has run a statement.
    reached: tuple[str, ...]


@dataclass
class Measured:
    """One tree's runs of one scenario."""

    tree: Contender
    runs: list[Run] = field(default_factory=list)
    started: bool = True
    error: str | None = None
    profile: StepProfile | None = None
    # The engine's log during the scenario.
    log: str = ""
    reached: tuple[str, ...] = ()


def result(scenario: Scenario, layers: int, measured: Measured, reference: Measured) -> Result:
    """Return the result of a tree's runs, compared with the first tree's."""
    runs = measured.runs
    timed = milliseconds_per_step(runs[WARM_UP:]) if scenario.batch else []
    theirs = milliseconds_per_step(reference.runs[WARM_UP:]) if scenario.batch else []
    rates = output_rates(runs[WARM_UP:]) if scenario.arriving else []
    their_rates = output_rates(reference.runs[WARM_UP:]) if scenario.arriving else []
    own = [first_difference(runs[0].outputs, run.outputs) for run in runs]
    compared: list[TokenDifference | None] = []
    logprobs = None
    if reference.runs and runs:
        expected = reference.runs[0].outputs
        compared = [first_difference(expected, run.outputs) for run in runs]
        logprobs = largest_logprob_difference(expected, runs[0].outputs)
    outputs = runs[0].outputs if runs else ()
    profile = measured.profile
    profiled = Spread.of(milliseconds_per_step(runs[WARM_UP:], profile.window)) if profile else None
    retracted = sum(map(int, _RETRACTED.findall(measured.log)))
    error = measured.error
    if scenario.scarce and error is None and not retracted and not measured.tree.control:
        error = "No request was taken back, which this scenario is for: leave the server less room."
    return Result(
        scenario=scenario.name,
        family=scenario.server.family,
        backend=scenario.server.backend,
        algorithm=scenario.server.algorithm,
        batch=scenario.batch,
        layers=layers,
        tree=measured.tree.name,
        control=measured.tree.control,
        started=measured.started,
        error=error,
        runs=len(runs),
        seconds=Spread.of([run.seconds for run in runs]),
        step=Spread.of(timed),
        ratio=Spread.of(pair_ratios(theirs, timed)),
        rate=Spread.of(rates),
        rate_ratio=Spread.of(pair_ratios(their_rates, rates)),
        profiled_step=profiled,
        identical=not any(compared) if compared else None,
        reproducible=not any(own),
        difference=next(filter(None, compared), None),
        logprob_difference=logprobs,
        accept_length=accept_length(outputs),
        distinct_tokens=distinct_tokens(outputs),
        retracted=retracted,
        gpu_busy=profile.busy_milliseconds / profiled.median if profile and profiled else None,
        profile=profile,
        reached=measured.reached,
    )


def passed(results: Sequence[Result]) -> bool:
    """Whether all trees give the first one's tokens in all scenarios, and each control differs in at least one.

    A control may crash, but not before its first request.
    """
    detected = {result.tree: False for result in results if result.control}
    for entry in results:
        if entry.control:
            detected[entry.tree] |= entry.started and (entry.error is not None or entry.identical is False)
        elif entry.error is not None or not entry.identical or not entry.reproducible:
            return False
    return all(detected.values())


def write(folder: Path, about: dict[str, Any], results: Sequence[Result]) -> None:
    """Write ``results.json`` and ``table.txt`` to the folder."""
    content = {**about, "results": [asdict(entry) for entry in results]}
    (folder / "results.json").write_text(json.dumps(content, indent=1))
    with (folder / "table.txt").open("w") as file:
        Console(file=file, width=_WIDTH).print(table(results))


def table(results: Sequence[Result]) -> Table:
    """Return the results as a table, one line per scenario, number of layers and tree."""
    lines = Table(title="Milliseconds per decode step; counts and shares per step, from a profile")
    for name in ("scenario", "layers", "tree"):
        lines.add_column(name)
    for name in (
        "median",
        "min",
        "spread",
        "ratio",
        "pairs",
        "accept",
        "retracted",
        "syncs",
        "D2H",
        "GPU busy",
    ):
        lines.add_column(name, justify="right")
    for name in ("tokens", "error"):
        lines.add_column(name)
    before = None
    for entry in results:
        here = (entry.scenario, entry.batch, entry.layers)
        if before not in (None, here):
            lines.add_section()
        before = here
        step, ratio, profile = entry.step, entry.ratio, entry.profile
        lines.add_row(
            entry.scenario if entry.batch is None else f"{entry.scenario} {entry.batch}",
            str(entry.layers),
            f"{entry.tree} (control)" if entry.control else entry.tree,
            f"{step.median:.3f}" if step else "",
            f"{step.lowest:.3f}" if step else "",
            f"{step.highest - step.lowest:.3f}" if step else "",
            f"{ratio.median:.4f}" if ratio else "",
            f"{ratio.lowest:.4f}-{ratio.highest:.4f}" if ratio else "",
            f"{entry.accept_length:.2f}" if entry.accept_length is not None else "",
            str(entry.retracted or ""),
            f"{profile.synchronisations:.1f}" if profile else "",
            f"{profile.copies_to_host:.1f}" if profile else "",
            f"{entry.gpu_busy:.1%}" if entry.gpu_busy is not None else "",
            _tokens(entry),
            entry.error or "",
        )
    return lines


def _tokens(entry: Result) -> str:
    if not entry.reproducible:
        return "not reproducible"
    if entry.identical is None:
        return "not compared"
    if entry.difference is None:
        return "identical"
    found = entry.difference
    return f"{found.requests} of {found.of} differ, first request {found.request} at token {found.position}"
