"""Read the results of ``bench_decode.py`` by release, model family and backend: the outcomes, and which patches ran.

A tree counts if it was compared with the unpatched tree of its own release. Results from before families, backends
and reached patches were recorded are all for the Llama; they count for the tree as a whole, and for no patch.
"""

from __future__ import annotations

import functools
import json
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from patchkit.errors import UsageError
from patchkit.patchset import load
from patchkit.patchset.runs import KnownRuns, Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from support import constructed as on_cpu

RELEASES = on_cpu.RELEASES
"""The releases on the page, oldest first."""
IDENTICAL, DIFFER, FAILED, NO_START, NOT_COMPARED = (
    *("identical", "tokens differ", "failed", "did not start"),
    "not compared",
)
"""The outcomes of a tree in a scenario, compared with the unpatched tree."""
OPT_IN = " with opt-in patches"
"""Suffix of a backend's name if the tree has opt-in patches."""
# Whether tokens are identical, by the outcomes that show that a patch ran; the one that shows most comes first.
_TOKENS = {IDENTICAL: True, DIFFER: False, NOT_COMPARED: None}
LONGEST = 90
"""The most characters of an error on the page."""

# For older results, the names of unpatched and patched trees, and what each scenario ran.
_UNPATCHED = ("unpatched", "base13")
_PATCHED = ("patched", "opted", "opted13")
_BACKENDS = (
    *(("fa3-prefill", "fa3+triton"), ("fa3", "fa3"), ("flashinfer", "flashinfer")),
    ("trtllm-mha", "triton+trtllm_mha"),
)
_ALGORITHMS = {"standalone": "STANDALONE", "no-speculation": "none"}


class Place(NamedTuple):
    """Release, model family, algorithm and backend of a run."""

    release: str
    family: str
    algorithm: str
    backend: str


class Scenario(NamedTuple):
    """A scenario; if it ran on several trees, the one with the most patches counts."""

    name: str
    batch: int | None
    layers: int

    @property
    def label(self) -> str:
        """The name, with the batch size if there is one."""
        return self.name if self.batch is None else f"{self.name} {self.batch}"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one tree with patches in one scenario."""

    place: Place
    scenario: Scenario
    date: str
    gpu: str
    end: str
    # The difference or the error, as in the results.
    detail: str
    reached: tuple[str, ...]
    # Whether the unpatched release failed and this tree did not.
    alone: bool


class _Tree(msgspec.Struct):
    name: str
    version: str | None = None
    control: bool = False
    patches: tuple[str, ...] | None = None
    # Those of the patches that were opt-in when the tree ran.
    opt_in: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if (self.patches is None) != (self.opt_in is None):
            raise ValueError(f"the tree {self.name} has only one of `patches` and `opt_in`")

    def field(self) -> str:
        """Return the part of a tree's name before its slash, in a run of several releases."""
        return self.name.rpartition("/")[0]

    def has_patches(self) -> bool:
        return self.name in _PATCHED if self.patches is None else bool(self.patches)

    def is_unpatched(self) -> bool:
        return self.name in _UNPATCHED if self.patches is None else not self.patches


class _Difference(msgspec.Struct):
    requests: int
    of: int


class _Result(msgspec.Struct):
    scenario: str
    tree: str
    batch: int | None
    layers: int
    started: bool
    error: str | None
    identical: bool | None
    reproducible: bool | None = None
    difference: _Difference | None = None
    family: str = "Llama"
    backend: str = ""
    algorithm: str = ""
    reached: tuple[str, ...] | None = None

    def key(self) -> Scenario:
        return Scenario(self.scenario, self.batch, self.layers)

    def place(self, release: str) -> Place:
        backend = self.backend or next(
            (name for start, name in _BACKENDS if self.scenario.startswith(start)), "triton"
        )
        return Place(
            release, self.family, self.algorithm or _ALGORITHMS.get(self.scenario, "EAGLE3"), backend
        )


class _Machine(msgspec.Struct):
    gpu: str = "unknown GPU"


class _File(msgspec.Struct):
    date: str
    machine: _Machine
    trees: list[_Tree]
    results: list[_Result]


def outcomes(folder: Path) -> list[Outcome]:
    """Return every outcome below a folder, earlier ones first, and of one run the tree with most patches last.

    Raise UsageError for an incomplete file.
    """
    files = [(path, found) for path in sorted(folder.rglob("*.json")) if (found := _read(path))]
    return [
        outcome
        for path, file in sorted(files, key=lambda each: each[1].date)
        for outcome in _outcomes(path, file)
    ]


def _read(path: Path) -> _File | None:
    """Return a file of ``bench_decode.py``; None for another script's."""
    try:
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict) or "bench_decode.py" not in str(content.get("command")):
            return None
        return msgspec.convert(content, _File)
    except ValueError as error:  # Errors of msgspec, JSON and UTF-8 are ValueErrors.
        raise UsageError(
            f"{path}: {error}: correct the file, or measure again and put its results there."
        ) from None


def _outcomes(path: Path, file: _File) -> Iterable[Outcome]:
    trees = {tree.name: tree for tree in file.trees}
    if unknown_trees := {result.tree for result in file.results} - trees.keys():
        raise UsageError(
            f"{path}: `trees` has no {sorted(unknown_trees)[0]!r}, which `results` names: correct the file."
        )
    # The first tree of each field is the reference.
    first = {tree.field(): tree for tree in reversed(file.trees)}
    references = {(result.tree, result.key()): result for result in file.results}
    patched = [tree for tree in file.trees if _counts(tree, first[tree.field()])]
    for tree in sorted(patched, key=lambda tree: len(tree.patches or ())):
        for result in file.results:
            if result.tree == tree.name:
                reference = references.get((first[tree.field()].name, result.key()))
                yield _outcome(file, tree, result, reference)


def _counts(tree: _Tree, reference: _Tree) -> bool:
    """Return whether a tree is patched and was compared with the unpatched one of its own release."""
    same = tree.version is not None and tree.version == reference.version
    return same and tree.has_patches() and reference.is_unpatched() and not tree.control


def is_default(name: str, patches: Sequence[str] | None, opt_in: Sequence[str]) -> bool:
    """Return whether a tree of a run had what ``apply`` makes if no patch is named.

    ``opt_in`` are those of its ``patches`` that were opt-in when it ran. The first runs recorded no patches; there the
    tree ``patched`` had the default patches of the day.
    """
    return name.rpartition("/")[2] == "patched" if patches is None else bool(patches) and not opt_in


def _outcome(file: _File, tree: _Tree, result: _Result, reference: _Result | None) -> Outcome:
    end, detail = _ending(result, reference)
    place = result.place(tree.version or "")
    if not is_default(tree.name, tree.patches, tree.opt_in or ()):
        # A run with opt-in patches does not count for a tree with only the default patches.
        place = place._replace(backend=f"{place.backend}{OPT_IN}")
    return Outcome(
        place=place,
        scenario=result.key(),
        date=file.date,
        gpu=file.machine.gpu,
        end=end,
        detail=detail,
        reached=tuple(_former().get(name, name) for name in result.reached or ()),
        alone=result.error is None and reference is not None and reference.error is not None,
    )


@functools.cache
def _former() -> Mapping[str, str]:
    """Return what the patches of runs that are parts of others today are called."""
    return load.patches().former


def _ending(result: _Result, reference: _Result | None) -> tuple[str, str]:
    if result.error is not None:
        error = result.error.removeprefix("start: ").removeprefix(f"{result.key().label}: ")
        # As code, since Markdown hides text in angle brackets.
        detail = f"`{textwrap.shorten(error, LONGEST, placeholder=' …').replace('`', chr(39))}`"
        if reference is not None and reference.error is not None:
            detail += " (the unpatched release fails too)"
        return (FAILED if result.started else NO_START), detail
    if result.identical is None:
        return NOT_COMPARED, "the unpatched release gave no tokens"
    if result.identical:
        return IDENTICAL, ""
    if reference is not None and reference.reproducible is False:
        return NOT_COMPARED, "two runs of the unpatched release differ"
    found = result.difference
    return DIFFER, f"{found.requests} of {found.of} requests" if found else ""


def latest(found: Iterable[Outcome]) -> dict[Place, dict[Scenario, Outcome]]:
    """Return the latest outcome of every scenario, by place."""
    places: dict[Place, dict[Scenario, Outcome]] = {}
    for outcome in found:
        places.setdefault(outcome.place, {})[outcome.scenario] = outcome
    return places


def known(found: Sequence[Outcome], patches: Sequence[str]) -> KnownRuns:
    """Return the runs of each patch: the latest at each place, with runs in which it was reached first."""
    runs: dict[tuple[Place, str, str], list[Outcome]] = {}
    last: dict[tuple[str, Place], tuple[str, str]] = {}
    for outcome in found:
        if outcome.end in (IDENTICAL, DIFFER) or (outcome.end == NOT_COMPARED and outcome.alone):
            runs.setdefault((outcome.place, outcome.end, outcome.date), []).append(outcome)
            for patch in outcome.reached:
                key, this = (patch, outcome.place), (outcome.end, outcome.date)
                last[key] = max(last.get(key, this), this, key=_proof)
    return KnownRuns(
        patches=tuple(patches),
        runs=tuple(
            Run(
                *(*place, together[-1].gpu, date[:10], _TOKENS[end]),
                named,
            )
            for (place, end, date), together in sorted(runs.items(), key=_by_release)
            if (named := tuple(patch for patch in patches if last.get((patch, place)) == (end, date)))
        ),
    )


def _proof(run: tuple[str, str]) -> tuple[int, str]:
    """Return the sort key of an outcome and its date: the one that shows most comes last."""
    end, date = run
    return -list(_TOKENS).index(end), date


def _by_release(run: tuple[tuple[Place, str, str], list[Outcome]]) -> tuple[int, Place, int, str]:
    (place, end, date), _ = run
    return order(place.release), place, list(_TOKENS).index(end), date


def order(release: str) -> int:
    """Return the sort key of a release; unknown ones come last."""
    return RELEASES.index(release) if release in RELEASES else len(RELEASES)


def written(runs: KnownRuns) -> str:
    """Return the text of ``runs.json``, one line per run."""
    lines = [msgspec.json.encode(run).decode() for run in runs.runs]
    head = f'"format": {runs.format},\n"patches": {json.dumps(runs.patches)},\n"runs": ['
    return "{" + head + "".join(f"\n{line}," for line in lines).removesuffix(",") + "\n]}\n"


def constructed() -> dict[str, frozenset[str]]:
    """Return the patches whose code was constructed on a CPU, by release."""
    return {release: on_cpu.on(release, on_cpu.PATCHES) for release in RELEASES}
