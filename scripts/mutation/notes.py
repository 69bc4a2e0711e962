"""Data exchanged with the test runs."""

from __future__ import annotations

import msgspec

# Environment variable: the file with the `Trial`.
TRIAL = "MUTATION_TRIAL"
# The hypothesis profile of such a run.
PROFILE = "mutation"


class Patched(msgspec.Struct):
    """A tree that tests patch: its unpatched copy, and the patches."""

    before: str
    patches: tuple[str, ...]


class Notes(msgspec.Struct):
    """The results of the clean runs."""

    trees: dict[str, Patched] = {}
    seconds: dict[str, float] = {}
    """The seconds of each test, and of each test module."""


class Trial(msgspec.Struct):
    """The settings of a test run."""

    checkout: str
    """The folder from which patchkit must be imported."""
    verdict: str
    """The file for the first failure."""
    notes: str
    """The file with the clean runs' notes."""
    clean: bool = False
    """Whether this is a clean run, which adds to the notes."""
    trees: bool = False
    """Whether it also notes the trees that its tests patch."""
    first: tuple[str, ...] = ()
    """Tests to run first."""


class Verdict(msgspec.Struct):
    """The first failure."""

    test: str
    message: str
