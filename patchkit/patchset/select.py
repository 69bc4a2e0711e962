"""The patches at hand, and which of them a command means."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from patchkit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.patchset.patch import Patch


class PatchSet:
    """The patches at hand, built-in ones first, in the order in which they are applied."""

    def __init__(self, patches: Sequence[Patch], digest: str) -> None:
        self._patches = {patch.id: patch for patch in patches}
        self.digest = digest

    def __iter__(self) -> Iterator[Patch]:
        return iter(self._patches.values())

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids, in order of application."""
        return tuple(self._patches)

    def get(self, identifier: str) -> Patch:
        """Return one patch; UsageError with the nearest id for one that does not exist."""
        if identifier in self._patches:
            return self._patches[identifier]
        close = difflib.get_close_matches(identifier, self._patches, n=1, cutoff=0.0)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UsageError(f"no patch is called {identifier!r}", advice=f"{hint}patchkit show lists them all")

    def select(self, identifiers: Sequence[str] = (), *, only: bool = False) -> tuple[Patch, ...]:
        """Return the patches named with what they require and, unless ``only``, what hardens them, in order.

        No identifier stands for all that are on by default.
        """
        wanted = {self.get(identifier).id for identifier in identifiers}
        wanted = wanted or {patch.id for patch in self if patch.default}
        grown = True
        while grown:
            before = len(wanted)
            for identifier in tuple(wanted):
                wanted.update(self.get(needed).id for needed in self._patches[identifier].requires)
            if not only:
                wanted.update(patch.id for patch in self if patch.default and wanted & set(patch.hardens))
            grown = len(wanted) > before
        return tuple(patch for patch in self if patch.id in wanted)
