"""Every way patchkit refuses, each with the exit code the command line documents for it."""

from __future__ import annotations


class PatchkitError(Exception):
    """A refusal in one sentence: what, where, and what to type next."""

    exit_code = 1


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
