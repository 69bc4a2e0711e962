"""Read ``patches/runs.json``, which records on which releases and GPUs each patch ran."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import msgspec

from patchkit.patchset import load

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME = "runs.json"
"""The file in the folder of the built-in patches; ``scripts/generate_docs.py`` writes it."""
_RELEASE = re.compile(r"\d+(?:\.\d+)+(?:rc\d+|\.post\d+)?")


class Run(msgspec.Struct, frozen=True):
    """The latest runs of a release, model family, algorithm and backend that executed code of each of ``patches``.

    ``identical`` is whether one of them gave the same tokens as the unpatched release, or None if that failed in each
    of them and the patched one did not.
    """

    release: str
    family: str
    algorithm: str
    backend: str
    gpu: str
    date: str
    identical: bool | None
    patches: tuple[str, ...]


class KnownRuns(msgspec.Struct, frozen=True):
    """The runs, and the names of the patches and parts that they cover; nothing is known of any other patch."""

    format: Literal[1] = 1
    patches: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()

    def where(self, patch: str) -> tuple[Run, ...] | None:
        """Return the runs of a patch in the file's order, or None if nothing is known of the patch."""
        if patch not in self.patches:
            return None
        return tuple(run for run in self.runs if patch in run.patches)

    def ran(self, patch: str, version: str | None) -> bool | None:
        """Return whether a patch ran on a tree's release, or None if that is unknown.

        A run with other tokens than the unpatched release's does not count.
        """
        release, places = release_of(version), self.where(patch)
        if release is None or places is None:
            return None
        return any(run.identical is not False and run.release == release for run in places)

    def all_ran(self, names: Iterable[str], version: str | None) -> bool | None:
        """Return whether each of several patches or parts ran on a tree's release, or None if that is unknown."""
        answers = {self.ran(name, version) for name in names}
        return None if None in answers else False not in answers


def read() -> KnownRuns:
    """Return the recorded runs, empty if the file is missing or damaged."""
    try:
        return msgspec.json.decode((load.BUILT_IN / NAME).read_bytes(), type=KnownRuns)
    except (OSError, ValueError, RecursionError):  # msgspec's errors are ValueErrors.
        return KnownRuns()


def release_of(version: str | None) -> str | None:
    """Return the release in a tree's version, without a local version suffix, or None."""
    stated = (version or "").partition("+")[0]
    return stated if _RELEASE.fullmatch(stated) else None


def never_run(patches: Iterable[str], version: str | None) -> str:
    """Return a sentence that names the patches that never ran on a tree's release, empty if there are none."""
    known_runs = read()
    never = [patch for patch in patches if known_runs.ran(patch, version) is False]
    if not never:
        return ""
    return f"Never run on a GPU with {release_of(version)}: {', '.join(never)} (patchkit show PATCH lists the runs)"
