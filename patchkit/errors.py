"""Every way patchkit refuses, each with the exit code the command line documents for it."""

from __future__ import annotations


class PatchkitError(Exception):
    """A refusal in one sentence: where, what, and what to type next.

    Each of the three is there by itself too, as far as whoever refused told them apart.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: object = "", advice: str = "") -> None:
        self.what, self.where, self.advice = what, str(where), advice
        sentence = f"{what}: {advice}." if advice else what
        super().__init__(f"{where}: {sentence}" if self.where else sentence)


class UsageError(PatchkitError):
    """The command line or a patch folder asks for something that does not exist or is malformed."""

    exit_code = 2


class ConflictError(PatchkitError):
    """The code around a site is not what the patch describes; nothing was written."""

    exit_code = 3


class TreeError(PatchkitError):
    """The tree cannot be used (not sglang, unreadable, locked, dirty, interrupted); nothing was written."""

    exit_code = 4


class UnfinishedError(PatchkitError):
    """A write began and could be neither ended nor taken back; ``patchkit apply --continue`` goes on from there."""
