"""The answer of ``verify``: the tree and the patches, as in ``status``, and every check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from patchkit.cli.answers.base import States, TreeAnswer, states
from patchkit.verify.result import Result  # noqa: TC001  # schemas are made of it

if TYPE_CHECKING:
    from patchkit.verify.result import Verdict


class Verify(States, frozen=True, kw_only=True):
    """The answer of ``verify``; ``unknown`` are the ids of patches in the tree that are not loaded."""

    unknown: tuple[str, ...] = ()
    passed: bool
    seconds: float
    checks: tuple[Result, ...]

    @classmethod
    def of(cls, verdict: Verdict) -> Verify:
        """Return the answer for a verdict."""
        tree = verdict.subject.tree
        return cls(
            tree=TreeAnswer.of(tree),
            patches=states(tree, verdict.statuses),
            unknown=verdict.subject.unknown,
            passed=verdict.passed,
            seconds=round(verdict.seconds, 3),
            checks=checks_of(verdict),
        )


def checks_of(verdict: Verdict) -> tuple[Result, ...]:
    """Return the answer for the checks of a verdict."""
    return tuple(replace(result, seconds=round(result.seconds, 3)) for result in verdict.results)
