"""What inspections of git trees came to, kept from run to run and from the first result on.

A file of SQLite below the user's cache folder, named after the code that made the results. One process writes it;
what cannot be read or written costs time and is no error.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import msgspec

from patchkit import cache
from patchkit.matrix.answer import Answer, PatchDiff, Verified
from patchkit.matrix.questions import Asked
from patchkit.plan.conflict import Conflict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_Kind = TypeVar("_Kind")
_AREA = "matrix"
_ROOMS = ("audit", "codemods", "findings", "matrix", "patchset", "plan", "tree", "verify")
_KEPT = 3
_TABLES = """
create table if not exists names (blob text primary key, names text);
create table if not exists answers (patches text, asked text, answer blob, primary key (patches, asked));
create table if not exists verified (patches text, package text, answer blob, primary key (patches, package));
create table if not exists faults (patches text, state text, answer blob, primary key (patches, state));
create table if not exists conflicts (patches text, state text, answer blob, primary key (patches, state));
create table if not exists diffs (patches text, state text, answer blob, primary key (patches, state));
"""
_asked = msgspec.json.Decoder(tuple[Asked, ...])
_answer = msgspec.json.Decoder(Answer)
_faults = msgspec.json.Decoder(tuple[str, ...])
_diffs = msgspec.json.Decoder(tuple[PatchDiff, ...])
_conflicts = msgspec.json.Decoder(tuple[Conflict, ...])
_verified = msgspec.json.Decoder(Verified)


class Memory:
    """The results for one set of patches, which ``digest`` names."""

    def __init__(self, digest: str) -> None:
        self._digest = digest
        self._base = self._open()

    def _open(self) -> sqlite3.Connection:
        folder = cache.folder(_AREA)
        path = folder / f"{cache.key({}, _ROOMS, ('libcst',))[:32]}.sqlite"
        with suppress(OSError, sqlite3.Error):
            folder.mkdir(parents=True, exist_ok=True)
            base = sqlite3.connect(path, timeout=30)
            base.executescript(_TABLES)
            path.touch()
            for old in sorted(folder.glob("*.sqlite"), key=lambda p: p.stat().st_mtime)[:-_KEPT]:
                old.unlink()
            return base
        base = sqlite3.connect(":memory:")
        base.executescript(_TABLES)
        return base

    def names(self) -> dict[str, str]:
        """Return the names that each known blob defines, as one string."""
        return dict(self._rows("select blob, names from names"))

    def answers(self) -> Iterator[tuple[tuple[Asked, ...], Answer]]:
        """Yield every inspection: what it asked, and what it came to."""
        for asked, answer in self._rows("select asked, answer from answers where patches = ?", self._digest):
            with suppress(msgspec.DecodeError):
                yield _asked.decode(asked), _answer.decode(answer)

    def verified(self) -> dict[str, Verified]:
        """Return what verifying came to, by the package folder's object."""
        query = "select package, answer from verified where patches = ?"
        return dict(self._decoded(query, _verified))

    def diffs(self) -> dict[str, tuple[PatchDiff, ...]]:
        """Return what the patches would change, by the state of the files."""
        return dict(self._decoded("select state, answer from diffs where patches = ?", _diffs))

    def conflicts(self) -> dict[str, tuple[Conflict, ...]]:
        """Return the sites of what conflicts, by the state of the files."""
        query = "select state, answer from conflicts where patches = ?"
        return dict(self._decoded(query, _conflicts))

    def faults(self) -> dict[str, tuple[str, ...]]:
        """Return what is wrong with what the patches make, by the state of the files."""
        query = "select state, answer from faults where patches = ?"
        return dict(self._decoded(query, _faults))

    def keep_names(self, names: dict[str, str]) -> None:
        """Keep the names that blobs define."""
        self._write("insert or ignore into names values (?, ?)", list(names.items()))

    def keep_answer(self, asked: tuple[Asked, ...], answer: Answer) -> None:
        """Keep what an inspection asked and came to."""
        row = (self._digest, msgspec.json.encode(asked).decode(), msgspec.json.encode(answer))
        self._write("insert or replace into answers values (?, ?, ?)", [row])

    def keep_verified(self, package: str, verified: Verified) -> None:
        """Keep what verifying a package came to."""
        row = (self._digest, package, msgspec.json.encode(verified))
        self._write("insert or replace into verified values (?, ?, ?)", [row])

    def keep_diffs(self, state: str, diffs: tuple[PatchDiff, ...]) -> None:
        """Keep what the patches would change in a state of the files."""
        row = (self._digest, state, msgspec.json.encode(diffs))
        self._write("insert or replace into diffs values (?, ?, ?)", [row])

    def keep_conflicts(self, state: str, conflicts: tuple[Conflict, ...]) -> None:
        """Keep the sites of what conflicts in a state of the files."""
        row = (self._digest, state, msgspec.json.encode(conflicts))
        self._write("insert or replace into conflicts values (?, ?, ?)", [row])

    def keep_faults(self, state: str, faults: tuple[str, ...]) -> None:
        """Keep what is wrong with what the patches make of a state of the files."""
        row = (self._digest, state, msgspec.json.encode(faults))
        self._write("insert or replace into faults values (?, ?, ?)", [row])

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def _decoded(self, query: str, decoder: msgspec.json.Decoder[_Kind]) -> Iterator[tuple[str, _Kind]]:
        for name, answer in self._rows(query, self._digest):
            with suppress(msgspec.DecodeError):
                yield name, decoder.decode(answer)

    def _rows(self, query: str, *values: str) -> list[tuple[str, str]]:
        try:
            return self._base.execute(query, values).fetchall()
        except sqlite3.Error:
            return []

    def _write(self, query: str, rows: Sequence[tuple[object, ...]]) -> None:
        with suppress(sqlite3.Error), self._base:
            self._base.executemany(query, rows)
