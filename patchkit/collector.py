"""Pause the garbage collector while syntax trees are made and read, with a bound on the memory that this takes.

Caches of syntax trees are bounded too, in a process that examines one sglang tree after another.
"""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")

# In allocated blocks: more than one verify of a large release leaves, one or two gigabytes.
_ENOUGH = 12_000_000
_bound = _ENOUGH
# With as many again for the next tree, less than 500 MB.
_ENOUGH_KEPT = 3_000_000
_forgetting: list[Callable[[], object]] = []


def kept(maxsize: int) -> Callable[[Callable[_Given, _Made]], Callable[_Given, _Made]]:
    """Cache the results of a function of syntax trees, as ``lru_cache`` does, until ``forget_much`` clears them."""

    def decorated(function: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
        cached = lru_cache(maxsize=maxsize)(function)
        forgotten_with(cached.cache_clear)
        return cached  # type: ignore[return-value]  # Its arguments can be hashed.

    return decorated


def forgotten_with(clear: Callable[[], object]) -> None:
    """Register a function with which ``forget_much`` clears a cache."""
    _forgetting.append(clear)


def forget_much() -> None:
    """Clear the caches of syntax trees and collect garbage, if many blocks are allocated."""
    if sys.getallocatedblocks() > _ENOUGH_KEPT:
        forget()


def forget() -> None:
    """Clear the caches of syntax trees and collect garbage."""
    for clear in _forgetting:
        clear()
    gc.collect()


def _forget_if_much_has_come() -> None:
    """Do the same if many blocks were allocated since the last time; a collection of old objects is rare otherwise."""
    global _bound  # noqa: PLW0603
    if sys.getallocatedblocks() > _bound:
        forget()
        _bound = sys.getallocatedblocks() + _ENOUGH


@contextmanager
def paused() -> Iterator[None]:
    """Turn the collector off, which would double the time of the work, and on again afterwards if it was on."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            # Frozen objects are counted one by one, so they are counted only if the collector would start immediately.
            if gc.get_count()[0] > gc.get_threshold()[0] and not gc.get_freeze_count():
                # Move all objects to the oldest generation: a young collection would traverse all of them.
                gc.freeze()
                gc.unfreeze()
            _forget_if_much_has_come()
            gc.enable()
