"""A tree's code, with the values that depend on it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchkit.audit.runners import AuditedProgram

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.tree.index import Module


class KnownProgram(AuditedProgram):
    """A tree's code; files that are the same in the program ``below`` are not parsed again."""

    def __init__(self, sources: dict[str, bytes], below: KnownProgram | None = None) -> None:
        self._below = below
        self._values: dict[Any, Any] = {}
        super().__init__(sources)

    def module(self, file: str) -> Module | None:
        """Return the parsed file, or None if it is missing or does not parse."""
        if self._below is not None and self.sources.get(file) == self._below.sources.get(file):
            return self._below.module(file)
        return super().module(file)

    def value(self, question: Any, make: Callable[[], Any]) -> Any:
        """Return a value that depends on the code alone; it is computed the first time."""
        if question not in self._values:
            self._values[question] = make()
        return self._values[question]
