"""The answer of ``verify``: the tree and the patches, as in ``status``, and every check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from patchkit.cli.answers.base import States
from patchkit.verify.result import Result  # noqa: TC001  # schemas are made of it

if TYPE_CHECKING:
    from patchkit.verify.result import Verdict


class Verify(States, frozen=True, kw_only=True):
    """The answer of ``verify``; ``unknown`` are the ids of patches in the tree that are not loaded."""

    unknown: tuple[str, ...] = ()
    passed: bool
    seconds: float
    checks: tuple[Result, ...]


def checks_of(verdict: Verdict) -> tuple[Result, ...]:
    """Return the answer for the checks of a verdict."""
    return tuple(replace(result, seconds=round(result.seconds, 3)) for result in verdict.results)
