"""The answer of ``bench``, and its recorded answers: the figures of servers on the pages and in ``doctor``."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from patchkit.bench.command import LaunchCommand
from patchkit.bench.figures import TokenDifference, differs, gain_of
from patchkit.bench.gpus import HostLoad  # noqa: TC001  # schemas are made of it

if TYPE_CHECKING:
    from collections.abc import Collection

RECORDED = Path(__file__).parents[1] / "benchmarks"
if not RECORDED.is_dir():
    # A source checkout keeps them with its documents; the wheel contains them in the package.
    RECORDED = Path(__file__).parents[2] / "docs" / "benchmarks" / "bench"

_NAME = re.compile(r"(?P<model>.+?)-(?P<layers>\d+)-(?P<backend>[a-z]\w*)-.*")
_MODELS = {"llama": "Llama", "mla": "DeepSeek MLA", "qwen3-next": "Qwen3-Next"}


class BenchTree(msgspec.Struct, frozen=True):
    """A tree that was served: its name in the answer, where it was copied from, and the patches in it."""

    name: str
    package: str
    version: str | None
    patches: tuple[str, ...]


class StepCost(msgspec.Struct, frozen=True):
    """What a profiled decode step costs: the share of its time in which the GPU is busy, and counts for each step."""

    gpu_busy: float
    host_waits: float
    copies_to_host: float
    launches: float


class BatchComparison(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Both trees with one batch: figures of the first and the second, milliseconds for each decode step.

    Without speculation a step is a token. All times are means of the fastest eighth of ``runs_ms``, the steps of runs
    in pairs; ``ratio`` is the second tree's over the first's, ``interval`` its 95 % confidence interval, null with
    fewer than 16 pairs. ``tokens`` is equal, differ, or not judged, if two runs of the first tree differ. ``freed``
    are host waits and copies of a step by call and operator, as counted on the first tree and on the second, that the
    second has less of.
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


class Benchmark(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The answer of ``bench``: two trees, the first the reference, on some GPUs.

    ``host`` is what ran there before the servers started and after the last run, ``beside`` that both were up at the
    same time. The first answers do not tell ``date`` and ``host``.
    """

    command: str
    date: str = ""
    trees: tuple[BenchTree, BenchTree]
    gpus: tuple[str, ...]
    host: tuple[HostLoad, HostLoad] | None = None
    beside: bool
    batches: tuple[BatchComparison, ...]
    notes: tuple[str, ...]

    @property
    def is_same_tree(self) -> bool:
        """Whether the second tree is the first one again, so that any difference is the machine's."""
        first, second = self.trees
        return (first.version, first.patches) == (second.version, second.patches)

    @property
    def was_alone(self) -> bool:
        """Whether no other GPU of the machine was in use, as far as that was recorded."""
        return self.host is not None and not any(load.other_gpus for load in self.host)


class Recorded(NamedTuple):
    """A recorded answer, and the server: its model, layers, attention backend and top-k, None without drafts.

    ``spread`` is how many times as long as itself the same tree took on such GPUs, alone or not, at most.
    """

    name: str
    answer: Benchmark
    model: str
    layers: int
    backend: str
    top_k: int | None
    spread: float

    def is_of(self, default: Collection[str]) -> bool:
        """Return whether it compares a release with the same one and no other patches than ``default``."""
        first, second = self.answer.trees
        is_alone = first.version == second.version and not first.patches
        return is_alone and bool(second.patches) and set(second.patches).issubset(default)

    def differs(self, batch: BatchComparison) -> bool:
        """Return whether the second tree takes another time, by more than the same tree does on such GPUs."""
        return differs(batch.ratio, batch.interval, self.spread)

    def gain(self, batch: BatchComparison) -> str:
        """Return what a ratio says; nothing, if it is no further from 1 than that of the same tree on such GPUs."""
        return gain_of(batch.ratio, batch.interval, self.spread)


def recorded(folder: Path) -> tuple[Recorded, ...]:
    """Return the answers in a folder, by name: ``MODEL-LAYERS-BACKEND-…``. Raise ValueError for another file."""
    answers = {
        file: msgspec.json.decode(file.read_bytes(), type=Benchmark) for file in sorted(folder.glob("*.json"))
    }
    spreads: dict[tuple[tuple[str, ...], bool], float] = {}
    for answer in answers.values():
        for batch in answer.batches if answer.is_same_tree else ():
            # Which of the two is the first is chance.
            apart = max(batch.ratio, 1 / batch.ratio)
            spreads[_conditions(answer)] = max(apart, spreads.get(_conditions(answer), 1.0))
    return tuple(
        _read(file, answer, spreads.get(_conditions(answer), 1.0)) for file, answer in answers.items()
    )


def _conditions(answer: Benchmark) -> tuple[tuple[str, ...], bool]:
    return answer.gpus, answer.was_alone


def _read(file: Path, answer: Benchmark, spread: float) -> Recorded:
    named = _NAME.fullmatch(file.stem)
    if named is None:
        raise ValueError(f"{file}: call it MODEL-LAYERS-BACKEND-RELEASE.json")
    launched = LaunchCommand(tuple(shlex.split(answer.command)), {})
    common = launched.value("--attention-backend") or named["backend"]
    sides = [launched.value(f"--{side}-attention-backend") or common for side in ("prefill", "decode")]
    top_k = (
        launched.number(1, "--speculative-eagle-topk") if launched.value("--speculative-algorithm") else None
    )
    model = _MODELS.get(named["model"], named["model"])
    return Recorded(
        file.stem, answer, model, int(named["layers"]), "+".join(dict.fromkeys(sides)), top_k, spread
    )
