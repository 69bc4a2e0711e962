"""Pause the garbage collector while syntax trees are made and read, with a bound on the memory that this takes.

Caches of syntax trees are bounded too, in a process that examines one sglang tree after another.
"""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

_Source = TypeVar("_Source", bound="Hashable")
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

# In allocated blocks: more than one verify of a large release leaves, one or two gigabytes.
_MAX_NEW_BLOCKS = 12_000_000
_bound = _MAX_NEW_BLOCKS
_uncounted = 0
# With as many again for the next tree, less than 500 MB.
_MAX_CACHED_BLOCKS = 3_000_000
_NOTHING: Any = object()
_caches: list[RecentCache[Hashable, object]] = []


class RecentCache(Generic[_Source, _Result]):
    """A cache of what was made from at least the last ``fewest`` sources, and from at most twice as many.

    What was not used between two times at which it ages is forgotten.
    """

    def __init__(self, fewest: int) -> None:
        self._fewest = fewest
        self._young: dict[_Source, _Result] = {}
        self._old: dict[_Source, _Result] = {}
        _caches.append(self)  # type: ignore[arg-type]

    def get(self, source: _Source, make: Callable[[], _Result]) -> _Result:
        """Return the cached result for a source, or else call ``make`` and cache what it returns."""
        # Each dictionary is read once, since another thread may let the cache age.
        result: _Result = self._young.get(source, _NOTHING)
        if result is not _NOTHING:
            return result
        result = self._old.get(source, _NOTHING)
        if result is _NOTHING:
            result = make()
        if len(self._young) >= self._fewest:
            self.age()
        self._young[source] = result
        return result

    def __contains__(self, source: _Source) -> bool:
        return source in self._young or source in self._old

    def age(self) -> None:
        """Forget what was not used since the last time."""
        self._old, self._young = self._young, {}

    def clear(self) -> None:
        """Forget everything."""
        self._old, self._young = {}, {}


def cached(fewest: int) -> Callable[[Callable[_Given, _Result]], Callable[_Given, _Result]]:
    """Cache the results of a function of syntax trees in a ``RecentCache``, until ``forget_if_large`` clears it."""

    def decorated(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        cache: RecentCache[Hashable, _Result] = RecentCache(fewest)

        @wraps(function)
        def cached_function(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
            key = (args, *kwargs.items()) if kwargs else args
            return cache.get(key, lambda: function(*args, **kwargs))

        return cached_function

    return decorated


def forget_if_large() -> None:
    """Clear the caches of syntax trees and collect garbage, if many blocks are allocated.

    First only of what was not used since the last time, if that leaves few enough: the next tree may be like this one.
    """
    if sys.getallocatedblocks() > _MAX_CACHED_BLOCKS // 2:
        forget_unused()
        if sys.getallocatedblocks() > _MAX_CACHED_BLOCKS:
            forget()


def forget() -> None:
    """Clear the caches of syntax trees and collect garbage."""
    for cache in _caches:
        cache.clear()
    gc.collect()


def forget_unused() -> None:
    """Clear the caches of what was not used since the last time. Syntax trees are freed with their last reference."""
    for cache in _caches:
        cache.age()


def _forget_if_grown(containers: int) -> None:
    """Do the same if many blocks were allocated since the last time; a collection of old objects is rare otherwise.

    ``containers`` is how many more there are after some work. Blocks are counted only after many, which takes a
    millisecond.
    """
    global _bound, _uncounted  # noqa: PLW0603
    _uncounted += max(0, containers)
    if _uncounted < _MAX_NEW_BLOCKS // 100:
        return
    _uncounted = 0
    if sys.getallocatedblocks() > _bound:
        forget()
        _bound = sys.getallocatedblocks() + _MAX_NEW_BLOCKS


@contextmanager
def collector_paused() -> Iterator[None]:
    """Turn the collector off, which would double the time of the work, and on again afterwards if it was on."""
    was_on = gc.isenabled()
    before = gc.get_count()[0]
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            containers = gc.get_count()[0] - before
            # Frozen objects are counted one by one, so they are counted only if the collector would start immediately.
            if gc.get_count()[0] > gc.get_threshold()[0] and not gc.get_freeze_count():
                # Move all objects to the oldest generation: a young collection would traverse all of them.
                gc.freeze()
                gc.unfreeze()
            _forget_if_grown(containers)
            gc.enable()
