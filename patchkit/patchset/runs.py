"""Where each patch ran on a GPU, as ``patches/runs.json`` has it; what that file does not tell is unknown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import msgspec

from patchkit.patchset import load

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME = "runs.json"
"""The file's name in the folder of the built-in patches; ``scripts/generate_docs.py`` writes it."""
_RELEASE = re.compile(r"\d+(?:\.\d+)+(?:rc\d+|\.post\d+)?")


class Run(msgspec.Struct, frozen=True):
    """The latest engines of a release, family, algorithm and backend that executed code of each of ``patches``.

    ``identical``: some of them gave the unpatched release's tokens. ``ratios`` are times of a decode step over the
    unpatched release's, by batch.
    """

    release: str
    family: str
    algorithm: str
    backend: str
    gpu: str
    date: str
    identical: bool
    ratios: dict[str, float]
    patches: tuple[str, ...]


class Known(msgspec.Struct, frozen=True):
    """The runs, and the patches that they would name if those had run; of another patch nothing is known."""

    format: Literal[1] = 1
    patches: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()

    def where(self, patch: str) -> tuple[Run, ...] | None:
        """Return where a patch ran, releases in the order of the file; None where that is unknown."""
        if patch not in self.patches:
            return None
        return tuple(run for run in self.runs if patch in run.patches)

    def ran(self, patch: str, version: str | None) -> bool | None:
        """Tell whether a patch gave the unpatched release's tokens on the release of a tree; None where unknown."""
        release, places = release_of(version), self.where(patch)
        if release is None or places is None:
            return None
        return any(run.identical and run.release == release for run in places)


def read() -> Known:
    """Return what is known; nothing where the file is missing or damaged."""
    try:
        return msgspec.json.decode((load.BUILT_IN / NAME).read_bytes(), type=Known)
    except (OSError, ValueError, RecursionError):  # What msgspec refuses is a ValueError.
        return Known()


def release_of(version: str | None) -> str | None:
    """Return the release that a tree's version names, whoever made the tree; None where it names none."""
    stated = (version or "").partition("+")[0]
    return stated if _RELEASE.fullmatch(stated) else None


def never_run(patches: Iterable[str], version: str | None) -> str:
    """Return a sentence that names the patches that never ran on the release of a tree; empty if there are none."""
    known = read()
    never = [patch for patch in patches if known.ran(patch, version) is False]
    if not never:
        return ""
    return f"Never run on a GPU with {release_of(version)}: {', '.join(never)} (patchkit show PATCH lists the runs)"
