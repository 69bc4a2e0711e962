"""Cache results outside of any tree, under a key that depends on every byte that they were computed from."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import platformdirs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Kept = TypeVar("Kept")

_KEPT = 32
_UNFINISHED = ".tmp"
_DAY = 86400


def folder(area: str) -> Path:
    """Return the folder of an area's results, in the user's cache folder."""
    return Path(platformdirs.user_cache_dir("patchkit")) / area


def key(sources: Mapping[str, bytes], packages: Iterable[str], libraries: Iterable[str] = ()) -> str:
    """Return a digest of the files that were read, of the code that read them, and of the interpreter.

    ``packages`` are packages of this project, ``libraries`` those whose version counts, which is in ``_version.py``.
    """
    digest = hashlib.sha256(_readers(tuple(packages), tuple(libraries)))
    for file, text in sorted(sources.items()):
        digest.update(b"\0%s\0%d\0" % (os.fsencode(file), len(text)))
        digest.update(text)
    return digest.hexdigest()


@cache
def _readers(packages: tuple[str, ...], libraries: tuple[str, ...]) -> bytes:
    digest = hashlib.sha256(repr(sys.version_info).encode())
    for package in packages:
        for path in sorted((Path(__file__).parent / package).rglob("*.py")):
            digest.update(path.read_bytes())
    # Neither the library nor importlib.metadata is imported: each takes longer than all else here.
    for spec in filter(None, map(importlib.util.find_spec, libraries)):
        digest.update(Path(spec.origin or "").with_name("_version.py").read_bytes())
    return digest.digest()


def load(area: str, name: str, kind: type[Kept]) -> Kept | None:
    """Return the result cached under a key, or None if there is none or it does not decode as ``kind``."""
    path = folder(area) / f"{name}.json"
    try:
        value = msgspec.json.decode(path.read_bytes(), type=kind)
        os.utime(path)
    except (
        OSError,
        ValueError,
        RecursionError,
    ):  # msgspec's errors are ValueErrors, as is that for a name with a NUL.
        return None
    return value


def save(area: str, name: str, value: Any, *, max_files: int = _KEPT) -> None:
    """Cache a result and delete the least recently used ones; a cache that cannot be written is no error."""
    import tempfile  # An answer from the cache needs none.

    place = folder(area)
    try:
        text = msgspec.json.encode(value)
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place, suffix=_UNFINISHED, delete=False) as file:
            file.write(text)
        Path(file.name).replace(place / f"{name}.json")
        for path in place.glob(f"*{_UNFINISHED}"):
            if time.time() - path.stat().st_mtime > _DAY:
                path.unlink(missing_ok=True)
        newest = sorted(place.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in newest[max_files:]:
            path.unlink(missing_ok=True)
    except (OSError, ValueError):  # A file name that is not UTF-8 is not JSON.
        return
