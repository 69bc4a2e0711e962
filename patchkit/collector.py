"""Garbage is not looked for while syntax trees are made and read, nor soon after; what piles up of it is bounded."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Blocks of memory: more than one verify of a large release leaves, a gigabyte or two.
_ENOUGH = 12_000_000
_bound = _ENOUGH


def _collect_if_much_is_there() -> None:
    """Collect once what is there has doubled: what counts as old is rarely looked through otherwise."""
    global _bound  # noqa: PLW0603
    if sys.getallocatedblocks() > _bound:
        gc.collect()
        _bound = max(_ENOUGH, 2 * sys.getallocatedblocks())


@contextmanager
def paused() -> Iterator[None]:
    """Leave the collector off, which would take as long again as the work itself; on again if it was on."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if not gc.get_freeze_count():
                # What was made counts as old at once: as young, the next few objects would have all of it looked
                # through.
                gc.freeze()
                gc.unfreeze()
                _collect_if_much_is_there()
            gc.enable()
