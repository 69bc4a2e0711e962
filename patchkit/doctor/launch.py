"""A server's launch: its settings and environment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Value = str | bool | int | float | None


@dataclass(frozen=True)
class Launch:
    """A server's ``given`` settings, the tree's defaults for the others, and its environment."""

    given: Mapping[str, Value]
    defaults: Mapping[str, Value]
    environment: Mapping[str, str]

    def get(self, name: str) -> Value:
        """Return a setting by its name in ``ServerArgs``, None if the tree has no such setting."""
        return self.given[name] if name in self.given else self.defaults.get(name)

    def with_settings(self, settings: Mapping[str, Value]) -> Launch:
        """Return the same launch with other settings; those that the tree lacks are ignored."""
        known = {name: value for name, value in settings.items() if name in self.defaults}
        return replace(self, given={**self.given, **known})
