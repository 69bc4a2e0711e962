"""One finding: what is wrong at one place of a tree, independent of the output format."""

from __future__ import annotations

import enum

import msgspec


class Confidence(str, enum.Enum):
    """How certain it is that a finding can occur; ordered by :attr:`rank`."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"

    @property
    def rank(self) -> int:
        """0 for the most certain."""
        return list(Confidence).index(self)


class Step(msgspec.Struct, frozen=True):
    """One assignment or call through which a value reaches the line of the finding."""

    file: str
    line: int
    text: str


class Finding(msgspec.Struct, frozen=True):
    """One finding; ``file`` is relative to the package folder, ``guard`` is the suggested fix.

    The order of the fields is part of the JSON format.
    """

    rule: str
    file: str
    line: int
    function: str
    expression: str
    message: str
    confidence: Confidence
    path: tuple[Step, ...]
    guard: str

    @property
    def fingerprint(self) -> tuple[str, str, str, str]:
        """The identity of the finding, which does not change when lines above it are added or removed."""
        return self.rule, self.file, self.function, self.expression


class Suppressed(Finding, frozen=True):
    """A finding that a comment in the source suppresses, with the comment's reason."""

    reason: str
