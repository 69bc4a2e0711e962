"""Garbage is not looked for while syntax trees are made and read, nor soon after; what piles up of it is bounded.

So is what is kept of them for further trees, where a process goes from one to the next.
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

# Blocks of memory: more than one verify of a large release leaves, a gigabyte or two.
_ENOUGH = 12_000_000
_bound = _ENOUGH
# With the next tree's, which are as many at most, less than 500 MB.
_ENOUGH_KEPT = 3_000_000
_forgetting: list[Callable[[], object]] = []


def kept(maxsize: int) -> Callable[[Callable[_Given, _Made]], Callable[_Given, _Made]]:
    """Keep what a function of syntax trees makes, as ``lru_cache`` does, until ``forget_much`` is called."""

    def decorated(function: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
        cached = lru_cache(maxsize=maxsize)(function)
        forgotten_with(cached.cache_clear)
        return cached  # type: ignore[return-value]  # Its arguments can be hashed.

    return decorated


def forgotten_with(clear: Callable[[], object]) -> None:
    """Have ``forget_much`` call this, too."""
    _forgetting.append(clear)


def forget_much() -> None:
    """Let go of all that is kept of syntax trees, and of garbage, where that is much."""
    if sys.getallocatedblocks() > _ENOUGH_KEPT:
        forget()


def forget() -> None:
    """Let go of all that is kept of syntax trees, and of garbage."""
    for clear in _forgetting:
        clear()
    gc.collect()


def _forget_if_much_has_come() -> None:
    """Let go of it where much has come since the last time: what counts as old is rarely looked through otherwise."""
    global _bound  # noqa: PLW0603
    if sys.getallocatedblocks() > _bound:
        forget()
        _bound = sys.getallocatedblocks() + _ENOUGH


@contextmanager
def paused() -> Iterator[None]:
    """Leave the collector off, which would take as long again as the work itself; on again if it was on."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            # What is frozen is counted one by one, so it is counted only where the collector would start at once.
            if gc.get_count()[0] > gc.get_threshold()[0] and not gc.get_freeze_count():
                # What was made counts as old at once: as young, the next few objects would have all of it looked
                # through.
                gc.freeze()
                gc.unfreeze()
            _forget_if_much_has_come()
            gc.enable()
