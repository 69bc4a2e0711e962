"""Read how much faster a decode step was with the default patches, from the recorded answers of ``bench``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from patchkit.bench.recorded import RECORDED, recorded
from patchkit.patchset.runs import release_of

if TYPE_CHECKING:
    from collections.abc import Collection


class Gain(msgspec.Struct, frozen=True):
    """A measured case: time per step divided by the unpatched release's, with its 95 % interval and what it says."""

    release: str
    server: str
    layers: int
    batch: int
    gpu: str
    ratio: float
    interval: tuple[float, float]
    gain: str


def gains(version: str | None, prefill: str, decode: str, default: Collection[str]) -> tuple[Gain, ...]:
    """Return what a release's attention backends gained with ``default`` patches, where tokens stayed the same.

    If that release was not measured with these backends, return the cases of the closest release that was, an older one
    if there is any; ``release`` names it.
    """
    backend = decode if prefill == decode else f"{prefill}+{decode}"
    cases = [
        Gain(
            server.answer.trees[0].version or "",
            f"{server.model}, top-k {server.top_k}" if server.top_k else server.model,
            server.layers,
            batch.batch,
            ", ".join(dict.fromkeys(server.answer.gpus)),
            batch.ratio,
            batch.interval,
            server.gain(batch),
        )
        for server in recorded(RECORDED)
        if server.backend == backend and server.is_of(default)
        for batch in server.answer.batches
        # The time of a run with other tokens is not comparable, and one of a few pairs is none.
        if batch.tokens == "equal" and batch.interval is not None
    ]
    closest = _closest(release_of(version), {case.release for case in cases})
    return tuple(case for case in cases if case.release == closest)


def _closest(release: str | None, measured: set[str]) -> str | None:
    """Return the release itself if it was measured, else the latest older one, else the earliest."""
    ordered = sorted(measured, key=_order)
    older = [other for other in ordered if release is not None and _order(other) <= _order(release)]
    return next(iter(older[-1:] or ordered), None)


def _order(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]
