"""Values that depend on a tree alone, each computed once for all of its servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class KnownValues(dict[Any, Any]):
    """The values, each by what it answers."""

    def value(self, question: Any, make: Callable[[], Any]) -> Any:
        """Return the value for a question; it is computed the first time."""
        if question not in self:
            self[question] = make()
        return self[question]
