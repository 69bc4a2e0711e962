"""What the clean run finds out, what a run of tests is told, and what it answers."""

from __future__ import annotations

import msgspec

# Where the file with a `Trial` is, for the pytest that runs it.
TRIAL = "MUTATION_TRIAL"
# The profile of hypothesis that such a pytest takes.
PROFILE = "mutation"


class Patched(msgspec.Struct):
    """A tree that tests apply patches to: where it lies as it was before, and which patches."""

    before: str
    patches: tuple[str, ...]


class Notes(msgspec.Struct):
    """What the clean run found out."""

    trees: dict[str, Patched] = {}
    seconds: dict[str, float] = {}
    """How long each test took, and each module of tests."""


class Trial(msgspec.Struct):
    """What a run of pytest is told."""

    checkout: str
    """The folder whose patchkit it has to be."""
    verdict: str
    """Where to write which test failed first."""
    notes: str
    """Where the clean run's notes are."""
    clean: bool = False
    """Whether this is the run that makes the notes."""
    first: tuple[str, ...] = ()
    """Tests to begin with."""


class Verdict(msgspec.Struct):
    """The first failure."""

    test: str
    said: str
