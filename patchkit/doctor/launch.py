"""A server's launch: its settings and environment, or the error with which it ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Value = str | bool | int | float | None


@dataclass(frozen=True)
class Refusal:
    """The error with which a tree's server ends instead of starting, and the file and line that raise it.

    ``filled`` is False if the message contains values that are not known before the start, or is code.
    """

    why: str
    where: str
    filled: bool = True


@dataclass(frozen=True)
class Launch:
    """A server's ``given`` settings, the tree's defaults for the others, and its environment.

    ``refused`` is the error of the command line's parser, which the server reports before any other. ``files`` are the
    configuration files of the settings that have been given in one.
    """

    given: Mapping[str, Value]
    defaults: Mapping[str, Value]
    environment: Mapping[str, str]
    refused: Refusal | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str) -> Value:
        """Return a setting by its name in ``ServerArgs``, None if the tree has no such setting."""
        return self.given[name] if name in self.given else self.defaults.get(name)

    def with_settings(self, settings: Mapping[str, Value]) -> Launch:
        """Return the same launch with other settings; those that the tree lacks are ignored."""
        known = {name: value for name, value in settings.items() if name in self.defaults}
        return replace(self, given={**self.given, **known})

    def without(self, name: str) -> Launch:
        """Return the same launch with the default of one setting."""
        given = {each: value for each, value in self.given.items() if each != name}
        return replace(self, given=given)
