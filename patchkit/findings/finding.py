"""One thing that is wrong at one place of a tree, in the words that every output format shares."""

from __future__ import annotations

import enum

import msgspec


class Confidence(str, enum.Enum):
    """How sure a finding is that it can happen; ordered by :attr:`rank`."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"

    @property
    def rank(self) -> int:
        """0 for the surest."""
        return list(Confidence).index(self)


class Step(msgspec.Struct, frozen=True):
    """One assignment or call on the way of a value to where it breaks something."""

    file: str
    line: int
    text: str


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong; ``file`` is relative to the package folder, ``guard`` says what to do about it.

    The fields, in this order, are the JSON contract.
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
        """What stays the same when code above the finding moves it."""
        return self.rule, self.file, self.function, self.expression


class Suppressed(Finding, frozen=True):
    """A finding that a comment in the source takes back, with the comment's reason."""

    reason: str
