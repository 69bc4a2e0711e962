"""A server's launch: its options and environment, and its settings after the start on each GPU with each model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchkit.patchset import condition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from patchkit.doctor.execution.process import Value
    from patchkit.tree.tree import Contents


@dataclass(frozen=True)
class Case:
    """A launch with one kind of model on one GPU: the facts about them, and the settings after the start.

    ``answers`` are the facts that tell the case from the launch's other ones. If the tree's code was not executed, the
    settings are those ``given``, and the defaults.
    """

    facts: Mapping[str, bool]
    answers: dict[str, bool]
    settings: Mapping[str, Value]
    given: frozenset[str] | None = None

    def value(self, name: str) -> Any:
        """Return a setting after the start, None if the tree lacks it, ``condition.UNKNOWN`` if it is not known."""
        if self.given is None or name in self.given:
            return self.settings.get(name)
        return condition.UNKNOWN if name in self.settings else None


@dataclass(frozen=True)
class Launch:
    """A launch: its settings as ``parsed``, before the start, its environment, and its cases.

    ``changed`` returns the launch with other settings, or on the tree with some files replaced; its cases are those
    that start. ``notes`` say what is not known of it.
    """

    parsed: Mapping[str, Value]
    environment: Mapping[str, str]
    cases: tuple[Case, ...]
    changed: Callable[[Mapping[str, Value], Contents], Launch]
    notes: tuple[str, ...] = ()
    files: frozenset[str] = frozenset()

    def get(self, name: str) -> Value:
        """Return a setting before the start by its name in ``ServerArgs``, None if the tree has no such setting."""
        return self.parsed.get(name)

    def with_settings(self, settings: Mapping[str, Value]) -> Launch:
        """Return the same launch with other settings."""
        return self.changed(settings, {})

    def guessed(self, settings: Mapping[str, Value]) -> Launch:
        """Return the launch as if it had resolved to these settings and the same others; nothing is executed."""
        cases = (replace(case, settings={**case.settings, **settings}) for case in self.cases)
        return replace(self, cases=tuple(cases))

    def on(self, files: Contents) -> Launch:
        """Return the same launch on the tree with some files replaced."""
        return self if self.files.isdisjoint(files) else self.changed({}, files)
