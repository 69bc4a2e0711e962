"""Write all results to a JSON file and a table, after every scenario."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from patchkit.bench.figures import Reply, TokenDifference, accept_length, judged

from .figures import distinct_tokens, largest_logprob_difference

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .scenarios import Scenario
    from .trees import Contender

_RETRACTED = re.compile(r"#retracted_reqs: (\d+)")
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
    # Patches of which the engine has run a statement.
    reached: tuple[str, ...]


@dataclass
class Measured:
    """One tree's runs of one scenario."""

    tree: Contender
    runs: list[tuple[Reply, ...]] = field(default_factory=list)
    started: bool = True
    error: str | None = None
    # The engine's log during the scenario.
    log: str = ""
    reached: tuple[str, ...] = ()


def result(scenario: Scenario, layers: int, measured: Measured, reference: Measured) -> Result:
    """Return the result of a tree's runs, compared with the first tree's."""
    runs = measured.runs
    outputs = runs[0] if runs else ()
    tokens = judged(reference.runs[:1], runs) if reference.runs and runs else None
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
        identical=tokens and tokens[0] == "equal",
        reproducible=judged(runs[:1], runs)[0] == "equal",
        difference=tokens and tokens[1],
        logprob_difference=largest_logprob_difference(reference.runs[0], outputs) if tokens else None,
        accept_length=accept_length(outputs),
        distinct_tokens=distinct_tokens(outputs),
        retracted=retracted,
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
    lines = Table()
    for name in ("scenario", "layers", "tree"):
        lines.add_column(name)
    for name in ("accept", "retracted"):
        lines.add_column(name, justify="right")
    for name in ("tokens", "error"):
        lines.add_column(name)
    before = None
    for entry in results:
        here = (entry.scenario, entry.batch, entry.layers)
        if before not in (None, here):
            lines.add_section()
        before = here
        lines.add_row(
            entry.scenario if entry.batch is None else f"{entry.scenario} {entry.batch}",
            str(entry.layers),
            f"{entry.tree} (control)" if entry.control else entry.tree,
            f"{entry.accept_length:.2f}" if entry.accept_length is not None else "",
            str(entry.retracted or ""),
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
