"""Run Triton kernels: interpreted on the CPU or, with PATCHKIT_TEST_DEVICE=cuda in the environment, on a GPU."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEVICE = os.environ.get("PATCHKIT_TEST_DEVICE", "cpu")


class Around(NamedTuple):
    """What lies around each tensor of a kernel: ``room`` bytes of one value before it, and as many after it."""

    room: int
    byte: int


INVALID = Around(256, 0xA5)
arounds = st.builds(Around, st.sampled_from([256, 264]), st.sampled_from([0, 0xA5]))
"""Aligned to 16 bytes or not. A 0 that is read is a number like others, and 0xA5 is far outside of any range."""


def launch(launcher: Callable[..., None], *given: Any, around: Around = INVALID) -> None:
    """Call a kernel's ``launcher`` with every tensor of ``given`` in memory of its own, and copy back what it wrote.

    ``given`` are tensors, named tuples of them, and whatever else it takes. Tensors that share memory share it there
    too. Raise AssertionError if the kernel wrote outside of it.
    """
    room, byte = around
    memories: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def moved(value: Any) -> Any:
        if isinstance(value, tuple):
            return type(value)._make(map(moved, value))  # type: ignore[attr-defined]
        if not isinstance(value, torch.Tensor):
            return value
        storage = value.untyped_storage()
        if storage._cdata not in memories:
            own = torch.empty(0, dtype=torch.uint8).set_(storage)
            whole = torch.full((own.numel() + 2 * room,), byte, dtype=torch.uint8, device=DEVICE)
            whole[room : room + own.numel()].copy_(own)
            memories[storage._cdata] = own, whole
        _, whole = memories[storage._cdata]
        start = room // value.element_size() + value.storage_offset()
        empty = torch.empty(0, dtype=value.dtype, device=DEVICE)
        return empty.set_(whole.untyped_storage(), start, value.shape, value.stride())

    launcher(*map(moved, given))
    for own, whole in memories.values():
        before, inside, after = whole.cpu().split_with_sizes((room, own.numel(), room))
        assert (torch.cat([before, after]) == byte).all(), "a kernel wrote outside of a tensor"
        own.copy_(inside)


def _interpret_triton() -> None:
    os.environ["TRITON_INTERPRET"] = "1"
    from support.driven.interpreter import hasten

    hasten()
    torch.set_num_threads(1)


def _called(function: Callable[..., Any], *given: Any) -> Any:
    return function(*given)


@contextmanager
def running() -> Iterator[Callable[..., Any]]:
    """Give a function that calls another where kernels run, with arguments and a result that can be pickled.

    That is a process of its own for the interpreter, since Triton decides at its import whether it interprets.
    """
    if DEVICE != "cpu":
        yield _called
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_interpret_triton) as pool:
        yield lambda function, *given: pool.submit(function, *given).result()
