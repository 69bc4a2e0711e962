"""One thing that is wrong at one place of a tree, in the words that every output format shares."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any


class Confidence(str, enum.Enum):
    """How sure the audit is that a finding can happen; ordered by :attr:`rank`."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"

    @property
    def rank(self) -> int:
        """0 for the surest."""
        return list(Confidence).index(self)


@dataclass(frozen=True)
class Step:
    """One assignment or call on the way of a None."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Finding:
    """One use that breaks when the mirror is None; ``file`` is relative to the package folder."""

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

    def as_json(self) -> dict[str, Any]:
        """Return the finding as the JSON contract spells it."""
        return {
            "rule": self.rule,
            "file": self.file,
            "line": self.line,
            "function": self.function,
            "expression": self.expression,
            "message": self.message,
            "confidence": self.confidence.value,
            "path": [{"file": step.file, "line": step.line, "text": step.text} for step in self.path],
            "guard": self.guard,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Finding:
        """Read back :meth:`as_json`. Raises KeyError, TypeError or ValueError for anything else."""
        path = tuple(Step(step["file"], int(step["line"]), step["text"]) for step in data["path"])
        return cls(
            data["rule"],
            data["file"],
            int(data["line"]),
            data["function"],
            data["expression"],
            data["message"],
            Confidence(data["confidence"]),
            path,
            data["guard"],
        )


@dataclass(frozen=True)
class Suppressed:
    """A finding that a comment in the source takes back, with the comment's reason."""

    finding: Finding
    reason: str
