"""Garbage is not looked for while syntax trees are made and read: they are millions of nodes, and all of them stay."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


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
                # through, and what of it is garbage goes with the next full collection.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
