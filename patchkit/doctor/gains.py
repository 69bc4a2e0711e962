"""Read how much faster a decode step was without the mirror, from the measurements in ``docs/benchmarks``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from patchkit.patchset.runs import is_default, release_of

if TYPE_CHECKING:
    from collections.abc import Iterator

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
if (
    not BENCHMARKS.is_dir()
):  # A source checkout keeps them with its documents; the wheel contains them in the package.
    BENCHMARKS = Path(__file__).parents[2] / "docs" / "benchmarks"

# A steady batch; the other scenarios compare tokens.
_TIMED = "straight"
# The backends of scenarios whose results do not name them.
_BACKENDS = (
    ("fa3", "fa3"),
    ("flashinfer", "flashinfer"),
    ("trtllm-mha", "triton+trtllm_mha"),
    ("", "triton"),
)


class Gain(msgspec.Struct, frozen=True):
    """A measured case: time per step divided by the unpatched release's, as median and extremes."""

    release: str
    scenario: str
    layers: int
    batch: int
    gpu: str
    ratio: float
    lowest: float
    highest: float


def gains(version: str | None, prefill: str, decode: str) -> tuple[Gain, ...]:
    """Return the latest measurement of each case of a release's attention backends that gave the same tokens.

    If that release was not measured with these backends, return those of the closest release that was, an older one if
    there is any; ``release`` names it.
    """
    backend = decode if prefill == decode else f"{prefill}+{decode}"
    by_place: dict[tuple[str, str, int, int], tuple[str, Gain]] = {}
    for path in sorted(BENCHMARKS.glob("*/*.json")):
        for date, case in _cases(_run(path), backend):
            key = (case.release, case.scenario, case.layers, case.batch)
            if key not in by_place or by_place[key][0] < date:
                by_place[key] = date, case
    cases = [case for _, case in by_place.values()]
    closest = _closest(release_of(version), {case.release for case in cases})
    return tuple(by_place[key][1] for key in sorted(by_place) if key[0] == closest)


def _cases(run: dict[str, Any], backend: str) -> Iterator[tuple[str, Gain]]:
    """Yield a run's cases of one backend with the patches that apply makes by default, each with the run's date."""
    gpu, date = str(run.get("machine", {}).get("gpu", "")), str(run.get("date", ""))
    versions = {
        str(tree.get("name")): tree.get("version")
        for tree in run.get("trees", ())
        if not tree.get("control")
        and is_default(str(tree.get("name")), tree.get("patches"), tree.get("opt_in", ()))
    }
    for result in () if run.get("untimed") else run.get("results", ()):
        scenario, ratio, tree = str(result.get("scenario")), result.get("ratio"), str(result.get("tree"))
        own = result.get("backend") or next(name for start, name in _BACKENDS if scenario.startswith(start))
        release = versions.get(tree)
        # The time of a run with other tokens is not comparable.
        is_same = result.get("identical") is True
        if release and scenario.endswith(_TIMED) and own == backend and ratio and is_same:
            numbers = (ratio["median"], ratio["lowest"], ratio["highest"])
            case = Gain(release, scenario, result["layers"], result["batch"], gpu, *numbers)
            yield date, case


def _closest(release: str | None, measured: set[str]) -> str | None:
    """Return the release itself if it was measured, else the latest older one, else the earliest."""
    ordered = sorted(measured, key=_order)
    older = [
        older_release
        for older_release in ordered
        if release is not None and _order(older_release) <= _order(release)
    ]
    return next(iter(older[-1:] or ordered), None)


def _order(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]


def _run(path: Path) -> dict[str, Any]:
    try:
        run = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    is_decoding = isinstance(run, dict) and "bench_decode.py" in str(run.get("command"))
    return run if is_decoding else {}
