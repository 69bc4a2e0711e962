"""The answer of ``status``."""

from __future__ import annotations

from patchkit.cli.answers.base import States


class Status(States, frozen=True, kw_only=True):
    """The answer of ``status``; ``unknown`` are the ids of patches in the tree that are not loaded.

    ``ports`` are the names of the ported changes in it.
    """

    unknown: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
