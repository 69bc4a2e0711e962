"""The memory and load of the GPUs that a server takes, as ``nvidia-smi`` reports them, and of their host."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from patchkit.errors import TreeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_QUERY = "index,uuid,name,memory.used,memory.total,utilization.gpu"
_SECONDS = 30
# MiB that a driver takes for itself, and percent that a display may.
_IDLE_MEMORY, _IDLE_LOAD = 1024, 10


class GpuLoad(NamedTuple):
    """A GPU; memory in MiB, ``busy`` the percentage of the last second in which something ran on it."""

    number: str
    uuid: str
    name: str
    used: int
    total: int
    busy: int

    @property
    def is_in_use(self) -> bool:
        """Whether something runs on it."""
        return self.used > _IDLE_MEMORY or self.busy > _IDLE_LOAD


class HostLoad(msgspec.Struct, frozen=True):
    """What runs on a machine: its cores, the running processes (average of a minute), and other GPUs in use."""

    cores: int
    load: float
    other_gpus: int


def host_load(found: Sequence[GpuLoad], own: Sequence[GpuLoad]) -> HostLoad:
    """Return what runs on this machine, whose GPUs are ``found``, besides on a server's own ones."""
    taken = {gpu.uuid for gpu in own}
    others = sum(gpu.is_in_use for gpu in found if gpu.uuid not in taken)
    return HostLoad(os.cpu_count() or 1, os.getloadavg()[0], others)


def taken_gpus(
    found: Sequence[GpuLoad], environment: Mapping[str, str], first: int = 0, count: int | None = None
) -> tuple[GpuLoad, ...]:
    """Return those of the visible GPUs that a server takes; empty if they are unknown."""
    visible = environment.get("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    if visible is not None:
        names = [name.strip() for name in visible.split(",")]
        found = [
            gpu
            for name in names
            for gpu in found
            if name == gpu.number or (name and gpu.uuid.startswith(name))
        ]
    return tuple(found[first:] if count is None else found[first : first + count])


def require_idle(found: tuple[GpuLoad, ...]) -> None:
    """Raise TreeError if something else runs on one of the GPUs, which would change every time that is measured."""
    for gpu in found:
        if gpu.is_in_use:
            raise TreeError(
                f"GPU {gpu.number} is in use ({gpu.used} of {gpu.total} MiB, busy {gpu.busy} % of the time)",
                advice="end what runs on it, or choose another one with CUDA_VISIBLE_DEVICES=N in the launch command",
            )


def fits_beside(before: tuple[GpuLoad, ...], after: tuple[GpuLoad, ...]) -> bool:
    """Return whether a second server fits into memory, which took from ``before`` to ``after`` for the first."""
    pairs = zip(before, after, strict=False)
    # What the first one took, and a tenth: a start needs more for a while.
    return bool(after) and all(new.total - new.used > 1.1 * (new.used - old.used) for old, new in pairs)


def all_gpus() -> list[GpuLoad]:
    """Return the GPUs of the machine; empty if they are unknown."""
    command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        listed = subprocess.run(
            command,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=_SECONDS,
        ).stdout
        rows = [[cell.strip() for cell in line.split(",")] for line in listed.splitlines()]
        return [GpuLoad(row[0], row[1], row[2], *map(int, row[3:])) for row in rows]
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return []
