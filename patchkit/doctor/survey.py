"""What becomes of the servers of some files on one tree, a row for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from patchkit.doctor.gains import Gain  # noqa: TC001  # schemas are made of it
from patchkit.errors import UsageError

if TYPE_CHECKING:
    from patchkit.doctor.diagnosis import Diagnosis
    from patchkit.doctor.files import FoundServer


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

    @classmethod
    def of(cls, server: FoundServer, diagnosis: Diagnosis | UsageError) -> SurveyedServer:
        """Return a server with its diagnosis, or with the tree's refusal."""
        unknown = tuple(word.text for word in server.command.options if not word.known)
        if isinstance(diagnosis, UsageError):
            return cls(server.file, server.command.line, unknown, str(diagnosis))
        return cls(
            server.file,
            server.command.line,
            unknown,
            kept=diagnosis.kept,
            frees=diagnosis.frees,
            verdict=diagnosis.verdict,
            gains=diagnosis.gains,
            needs=tuple(fix.patch for fix in diagnosis.fixes),
            notes=diagnosis.notes,
        )
