"""What becomes of the servers of some files on one tree, a row for each."""

from __future__ import annotations

import msgspec

from patchkit.doctor.gains import Gain  # noqa: TC001  # schemas are made of it


class SurveyedServer(msgspec.Struct, frozen=True):
    """A server at a line of a file: its diagnosis, or why it is ``refused``.

    ``frees`` is True if the default patches remove the mirror for some models, ``needs`` are the patches of fixes that
    it lacks, and ``unknown`` the words of its command that the file does not tell.
    """

    file: str
    line: int
    unknown: tuple[str, ...]
    refused: str = ""
    kept: bool = False
    frees: bool = False
    verdict: str = ""
    gains: tuple[Gain, ...] = ()
    needs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Survey(msgspec.Struct, frozen=True):
    """The servers, in the order of the files and their lines."""

    servers: tuple[SurveyedServer, ...]
