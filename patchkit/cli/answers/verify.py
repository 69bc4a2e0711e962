"""The answer of ``verify``: the tree and the patches, as in ``status``, and every check."""

from __future__ import annotations

from patchkit.cli.answers.base import States
from patchkit.verify.result import Result  # noqa: TC001  # schemas are made of it


class Verify(States, frozen=True, kw_only=True):
    """The answer of ``verify``; ``unknown`` are the ids of patches in the tree that are not loaded."""

    unknown: tuple[str, ...] = ()
    passed: bool
    seconds: float
    checks: tuple[Result, ...]
