"""The answer of ``export``."""

from __future__ import annotations

from patchkit.cli.answers.base import LeftOutAnswer, States


class Export(States, frozen=True, kw_only=True):
    """The answer of ``export``: the files written, in order; ``left`` are the patches that do not fit."""

    files: tuple[str, ...]
    left: tuple[LeftOutAnswer, ...] = ()
