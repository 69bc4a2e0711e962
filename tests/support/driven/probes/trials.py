"""Probes that test the machinery: they name their tree, fail, die, leave state behind or are inspected."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sglang
import torch
from sglang.srt.speculative import base_spec_worker

from . import repeatable
from .recorders import DeviceTensor, PretendedCuda, on_device

if TYPE_CHECKING:
    from collections.abc import Callable

LEFT: list[int] = []


def declares_backends() -> bool:
    """Return whether every spec-v2 worker names the backends of its forwards."""
    return hasattr(base_spec_worker.BaseSpecWorker, "spec_v2_attn_backends")


def place() -> str:
    """Return where the tree's package lies."""
    return str(sglang.__path__[0])


@repeatable
def sign(file: str) -> None:
    """Write the process that answers to a file."""
    with Path(file).open("a") as signed:
        print(os.getpid(), file=signed)


@repeatable
def claim(number: int) -> list[int]:
    """Do as `leave` does, though marked."""
    return leave(number)


@repeatable
def environment(**settings: str) -> dict[str, str | None]:
    """Set variables of the environment, and return what those and PATH are."""
    os.environ.update(settings)
    return {name: os.environ.get(name) for name in ("PATCHKIT_TRIED", "PATH")}


def leave(number: int) -> list[int]:
    """Add to a global of this module and return all of it."""
    LEFT.append(number)
    return LEFT


def fail(message: str) -> None:
    """Raise."""
    raise LookupError(message)


def die(status: int) -> None:
    """End the process that answers."""
    print("last words", flush=True)
    os._exit(status)


def kill_worker() -> None:
    """End the process that starts those that answer."""
    os.kill(os.getppid(), 9)


def reads_of(lens: list[int]) -> dict[str, list[str]]:
    """Return what is written down when device tensors are read, and when they are only computed with."""
    result = {}
    acts: dict[str, Callable[[Any], Any]] = {
        "item": lambda tensor: tensor.sum().item(),
        "tolist": lambda tensor: (tensor + 1).tolist(),
        "cpu": lambda tensor: tensor.cpu().tolist(),
        "max": max,
        "empty": lambda tensor: torch.empty(tensor[-1]),
        "condition": lambda tensor: bool(tensor[0] > 0),
        "compute": lambda tensor: torch.cumsum(torch.cat([tensor, torch.tensor(lens)]), 0)[1:] * 2,
    }
    for how, act in acts.items():
        DeviceTensor.reads.clear()
        act(on_device(lens))
        result[how] = sorted(set(DeviceTensor.reads))
    return result


def copies_of(lens: list[int]) -> list[tuple[bool, bool]]:
    """Return whether copies to the device were from pinned memory, and whether they blocked."""
    with PretendedCuda() as cuda:
        torch.tensor(lens).to("cuda")
        torch.tensor(lens).to(device=torch.device("cuda"), non_blocking=True)
        torch.tensor(lens).pin_memory().to(device="cuda", non_blocking=True)
        torch.tensor(lens, device="cuda").to("cuda")
    copies: list[tuple[bool, bool]] = cuda.copies
    return copies


def answer_with_a_tensor() -> torch.Tensor:
    """Return what nobody outside can read."""
    return torch.zeros(1)
