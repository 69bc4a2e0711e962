"""What freeing a server was worth where it was measured: ``docs/benchmarks`` says, nothing here does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
if not BENCHMARKS.is_dir():  # A source checkout keeps them with its documents; the wheel carries them inside.
    BENCHMARKS = Path(__file__).parents[2] / "docs" / "benchmarks"

# The scenario that runs a decode backend in a straight line, and the tree that has every patch that it gains by.
_MEASURED = {
    "triton": (("default-straight", "patched"), ("straight", "patched")),
    "trtllm_mha": (("trtllm-mha-straight", "opted"),),
    "flashinfer": (("flashinfer-straight", "patched"),),
    "fa3": (("fa3-straight", "patched"), ("fa3", "patched")),
}


class Worth(msgspec.Struct, frozen=True):
    """A measured case: time per step over the unpatched release's, its median and its extremes."""

    scenario: str
    layers: int
    batch: int
    gpu: str
    ratio: float
    lowest: float
    highest: float


def worth(backend: str) -> tuple[Worth, ...]:
    """Return what was measured of a decode backend, the latest of each case; none where nothing was."""
    found: dict[tuple[str, int, int], tuple[str, Worth]] = {}
    for path in sorted(BENCHMARKS.glob("*/*.json")):
        run = _run(path)
        gpu, date = str(run.get("machine", {}).get("gpu", "")), str(run.get("date", ""))
        for result in run.get("results", ()):
            scenario, ratio = result.get("scenario"), result.get("ratio")
            if (scenario, result.get("tree")) in _MEASURED.get(backend, ()) and ratio and result.get("batch"):
                case = (scenario, result["layers"], result["batch"])
                said = Worth(*case, gpu, ratio["median"], ratio["lowest"], ratio["highest"])
                if case not in found or found[case][0] < date:
                    found[case] = (date, said)
    return tuple(found[case][1] for case in sorted(found))


def _run(path: Path) -> dict[str, Any]:
    try:
        run = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return run if isinstance(run, dict) and isinstance(run.get("results"), list) else {}
