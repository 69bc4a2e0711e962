"""Cache results about git trees between runs; each result is stored as soon as it is known.

The cache is an SQLite file below the user's cache folder, named after a digest of the code that makes the results. One
process writes it. A cache that cannot be read or written is ignored.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import msgspec

from patchkit import cache

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

_Kind = TypeVar("_Kind")
_AREA = "matrix"
_KEPT = 3
_TABLE = """
create table if not exists answers
(task text, patches text, name text, answer blob, primary key (task, patches, name)) without rowid
"""


class Memory:
    """The cached results for the set of patches with this digest."""

    def __init__(self, digest: str) -> None:
        self._digest = digest
        self._path = cache.folder(_AREA) / f"{cache.key({}, ('.',), ('libcst',))[:32]}.sqlite"
        self._base = self._open()

    def _open(self) -> sqlite3.Connection:
        with suppress(OSError, sqlite3.Error):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                base = _connected(self._path)
            except sqlite3.OperationalError:  # The file is locked or cannot be created.
                raise
            except sqlite3.DatabaseError:
                self._path.unlink()
                base = _connected(self._path)
            self._path.touch()
            databases = sorted(self._path.parent.glob("*.sqlite"), key=lambda path: path.stat().st_mtime)
            for old in databases[:-_KEPT]:
                old.unlink()
            return base
        return _connected(":memory:")

    def recall(self, task: str, kind: type[_Kind], *, shared: bool = False) -> dict[str, _Kind]:
        """Return the results of a task by name, without damaged ones; ``shared`` results do not depend on patches."""
        decoder = msgspec.json.Decoder(kind)
        query = "select name, answer from answers where task = ? and patches = ?"
        recalled = {}
        for name, answer in self._rows(query, task, "" if shared else self._digest):
            with suppress(ValueError, TypeError, RecursionError):
                if isinstance(name, str):
                    recalled[name] = decoder.decode(answer)
        return recalled

    def keep(self, task: str, results: Mapping[str, Any], *, shared: bool = False) -> None:
        """Store results of a task."""
        patches = "" if shared else self._digest
        rows = []
        for name, answer in results.items():
            with suppress(ValueError):  # A file name that is not UTF-8 is not JSON.
                rows.append((task, patches, name, msgspec.json.encode(answer)))
        with suppress(sqlite3.Error), self._base:
            self._base.executemany("insert or replace into answers values (?, ?, ?, ?)", rows)

    def close(self) -> None:
        """Close the database."""
        self._base.close()

    def _rows(self, query: str, *values: str) -> list[tuple[Any, Any]]:
        try:
            return self._base.execute(query, values).fetchall()
        except sqlite3.OperationalError:
            return []
        except sqlite3.DatabaseError:  # The file is damaged, so it is replaced.
            self._base.close()
            with suppress(OSError):
                self._path.unlink()
            self._base = self._open()
            return []


def _connected(path: Path | str) -> sqlite3.Connection:
    base = sqlite3.connect(path, timeout=30)
    try:
        base.execute(_TABLE)
    except sqlite3.Error:
        base.close()
        raise
    return base
