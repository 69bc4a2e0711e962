"""The answer of ``bench``."""

from __future__ import annotations

from patchkit.bench.compare import StepCost  # noqa: TC001  # schemas are made of it
from patchkit.bench.figures import TokenDifference  # noqa: TC001  # schemas are made of it
from patchkit.cli.answers.base import Answer
from patchkit.commands.bench import BenchTree  # noqa: TC001  # schemas are made of it


class ComparedBatch(Answer, frozen=True, kw_only=True):
    """Both trees with one batch; pairs of values are those of the first and the second tree.

    ``ratio`` is the second tree's time for a step over the first's, null ``interval`` is that of too few pairs;
    ``runs_ms`` are the steps of single runs;
    ``tokens`` is equal, differ, or not judged, if two runs of the first tree differ.
    """

    batch: int
    step_ms: tuple[float, float]
    tokens_per_second: tuple[float, float]
    accept_length: tuple[float | None, float | None]
    pairs: int
    runs_ms: tuple[tuple[float, ...], tuple[float, ...]]
    ratio: float
    interval: tuple[float, float] | None
    gain: str
    tokens: str
    difference: TokenDifference | None
    costs: tuple[StepCost | None, StepCost | None]
    freed: dict[str, tuple[float, float]]


class Bench(Answer, frozen=True, kw_only=True):
    """The answer of ``bench``; ``command`` is the launch command."""

    command: str
    trees: tuple[BenchTree, BenchTree]
    gpus: tuple[str, ...]
    beside: bool
    batches: tuple[ComparedBatch, ...]
    notes: tuple[str, ...]
