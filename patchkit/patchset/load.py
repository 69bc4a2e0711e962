"""Load patch folders, validate them, and order the patches."""

from __future__ import annotations

import hashlib
import itertools
import os
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from patchkit import cache
from patchkit.errors import UsageError
from patchkit.patchset import configuration
from patchkit.patchset.diffs import BASE, is_of_diffs
from patchkit.patchset.header import OwnFile, PatchHeader, patch_of, require_free, unknown_patch
from patchkit.patchset.malformed import table_in
from patchkit.patchset.patch import LateChange, former_ids
from patchkit.patchset.select import PatchSet
from patchkit.tree.fork import FILE, FOLDER
from patchkit.tree.limits import read_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from patchkit.patchset.configuration import ConfigurationFile
    from patchkit.patchset.patch import Edit, Patch
    from patchkit.tree.fork import DiskFork, Fork

    Raw = dict[str, Any]

BUILT_IN = Path(__file__).parents[1] / "patches"
if (
    not BUILT_IN.is_dir()
):  # A source checkout keeps them beside the package; the wheel contains them in the package.
    BUILT_IN = Path(__file__).parents[2] / "patches"

_AREA = "patches"
# Their files differ by version of patchkit alone.
_KEPT = 4


class _Late:
    """The edits of some patches, all converted when the first one is used.

    Until then neither the kinds of edit nor libcst are imported. A malformed edit raises UsageError whichever is used
    first.
    """

    def __init__(self, files: Mapping[str, tuple[Raw, Path]]) -> None:
        self._files = files

    def of(self, patch: str) -> Iterator[LateChange]:
        """Yield the changes of a patch's edits."""
        return map(partial(LateChange, partial(self._edits, patch)), itertools.count())

    def _edits(self, patch: str) -> Sequence[Edit]:
        return self._converted[patch]

    @cached_property
    def _converted(self) -> dict[str, Sequence[Edit]]:
        return {name: read(raw, path).edits for name, (raw, path) in self._files.items()}


def parsed(path: Path, read: Callable[[], bytes] | None = None) -> tuple[Raw, bytes]:
    """Return a TOML file's table and bytes. Raise UsageError, with file and reason, if it cannot be read or parsed."""
    data = read_named(path) if read is None else read()
    return table_in(data, path), data


class _Tables(msgspec.Struct, frozen=True):
    """A cache entry: what files contain, and the key under which it was cached."""

    key: str
    tables: tuple[dict[str, Any], ...]


def _tables(files: Sequence[tuple[Path, bytes]], *, cached: bool) -> Sequence[Raw]:
    """Return the content of patch files, which must not be modified."""
    key = cache.key({path.parent.name: data for path, data in files}, ()) if cached else ""
    cached_tables = cache.load(_AREA, key, _Tables) if cached else None
    if cached_tables is not None and cached_tables.key == key and len(cached_tables.tables) == len(files):
        return cached_tables.tables
    tables = tuple(table_in(data, path) for path, data in files)
    if cached:
        cache.save(_AREA, key, _Tables(key, tables), max_files=_KEPT)
    return tables


def read(raw: Raw, path: Path) -> Patch:
    """Return the patch that a table defines. Raise UsageError, with file, key and reason, if it is malformed."""
    from patchkit.patchset import convert

    return convert.read(raw, path)


def _built_in(raw: Raw, path: Path, late: _Late) -> Patch:
    try:
        header = msgspec.convert(raw, PatchHeader)
    except msgspec.ValidationError:
        return read(raw, path)  # Raises an error that names the edit.
    return msgspec.structs.replace(patch_of(header, path, late.of(header.id)), built_in=True)


def _ordered(patches: dict[str, Patch], paths: dict[str, Path]) -> list[Patch]:
    """Return built-in patches first, then others, by id and after what they require; folder order does not matter."""
    former = former_ids(patches.values())
    for patch in patches.values():
        for other in patch.requires:
            if other not in patches:
                raise unknown_patch("requires", other, former, paths[patch.id])
    done: dict[str, Patch] = {}
    for name in sorted(patches, key=lambda name: (not paths[name].is_relative_to(BUILT_IN), name)):
        trail = {} if name in done else {name: iter(patches[name].requires)}
        while trail:
            last = next(reversed(trail))
            needed = next((other for other in trail[last] if other not in done), None)
            if needed is None:
                done[last] = patches[last]
                del trail[last]
            elif needed in trail:
                raise UsageError(
                    f"key `requires`: the patches {' -> '.join(trail)} require each other",
                    where=paths[needed],
                    advice="remove one of these requirements",
                )
            else:
                trail[needed] = iter(patches[needed].requires)
    return list(done.values())


def patches(folders: Sequence[Path] = (), fork: Fork | None = None, *, cached: bool = False) -> PatchSet:
    """Load the built-in patches and those in ``folders`` (each a patch folder or a folder of patch folders).

    The configuration of a ``fork`` adds the fork's own patches, except those that ``folders`` has too, and sets the
    default patches. A file with ``extends`` extends that patch. Raise UsageError, with file, key and reason, for a
    malformed patch; for a malformed edit of a built-in patch, only when an edit's kind is first used.

    ``cached`` takes the content of the built-in files from the user's cache, which saves most of the time of a command
    that only answers. What is written to a tree is made from the files themselves.
    """
    digest = hashlib.sha256()
    built_in: dict[str, tuple[Raw, Path]] = {}
    loaded: dict[str, Patch] = {}
    paths: dict[str, Path] = {}
    texts: dict[str, list[bytes]] = {}
    late = _Late(built_in)
    files = [(path, read_named(path)) for path in files_in(BUILT_IN)]
    for (path, data), raw in zip(files, _tables(files, cached=cached), strict=True):
        digest.update(data)
        patch = _built_in(raw, path, late)
        require_free(patch.id, path, paths)
        texts[patch.id] = [data]
        built_in[patch.id], loaded[patch.id], paths[patch.id] = (raw, path), patch, path
    own: list[OwnFile] = []
    for path in (path for folder in folders for path in files_in(folder)):
        own.append(OwnFile(parsed(path)[0], path, _diffs_beside(path)))
    file = configuration.read(fork) if fork is not None else None
    if file is not None:
        own += _configured(file, own)
        digest.update(msgspec.json.encode(file.content))
    for table in own:
        digest.update(repr((table.raw, sorted(table.diffs.items()))).encode())
    if own:
        from patchkit.patchset import convert

        for name, (patch, path) in convert.own(own, built_in, former_ids(loaded.values())).items():
            built_in.pop(name, None)
            loaded[name], paths[name] = patch, path
        for table in own:
            name = str(table.raw.get("id", table.raw.get("extends")))
            texts.setdefault(name, []).append(repr((table.raw, sorted(table.diffs.items()))).encode())
    for name, parts in texts.items():
        form = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
        loaded[name] = msgspec.structs.replace(loaded[name], form=form)
    patches_found = PatchSet(_ordered(loaded, paths), digest.hexdigest())
    return patches_found if file is None else configuration.configured(patches_found, file)


def _diffs_beside(path: Path) -> dict[str, bytes]:
    """Return the files of the diffs beside a patch file, by their names from its folder."""
    names = (
        entry.relative_to(path.parent).as_posix()
        for folder in ("", BASE)
        for entry in (path.parent / folder).glob("*")
    )
    return {name: read_named(path.parent / name) for name in names if is_of_diffs(name)}


def _configured_diffs(file: ConfigurationFile, name: str) -> dict[str, bytes]:
    """Return the same of a patch file of a fork's repository."""
    folder = name.rpartition("/")[0]
    below = f"{folder}/{BASE}".removeprefix("/")
    inside = [*file.fork.inside(folder)]
    if file.fork.kind(below) == FOLDER:
        inside += (f"{BASE}/{name}" for name in file.fork.inside(below))
    places = {name: f"{folder}/{name}".removeprefix("/") for name in inside if is_of_diffs(name)}
    return {name: file.fork.read(place) for name, place in places.items() if file.fork.kind(place) == FILE}


def _configured(config_file: ConfigurationFile, own: Sequence[OwnFile]) -> Iterator[OwnFile]:
    """Yield the patches in a fork's configured folders that are not in ``own``."""
    taken = {table.raw.get("id") for table in own} - {None}
    for name in dict.fromkeys(
        file for folder in config_file.content.patches for file in config_file.folder(folder)
    ):
        path = Path(config_file.fork.label(name))
        raw, _ = parsed(path, partial(config_file.fork.read, name))
        if raw.get("id") not in taken and all(raw != table.raw for table in own):
            yield OwnFile(raw, path, _configured_diffs(config_file, name))


def own_files(folders: Sequence[Path], fork: DiskFork) -> list[Path]:
    """Return the patch files in ``folders`` and in the folders that a fork configures."""
    file = configuration.read(fork)
    named = [name for folder in file.content.patches for name in file.folder(folder)] if file else []
    return [*(path for folder in folders for path in files_in(folder)), *map(fork.path, named)]


def is_built_in(name: str) -> bool:
    """Return whether a word is the id of a built-in patch."""
    return os.path.isfile(BUILT_IN / name / configuration.PATCH)


def files_in(folder: Path) -> list[Path]:
    """Return the patch files in a folder or directly below it. Raise UsageError if there are none."""
    alone = folder / "patch.toml"
    files = [alone] if alone.is_file() else sorted(folder.glob("*/patch.toml"))
    if not files:
        raise UsageError(
            "no patch.toml in this folder or directly below it", where=folder, advice="name a folder with one"
        )
    return files


def named_in(path: Path) -> str:
    """Return the id of the patch that a patch file defines or extends."""
    raw, _ = parsed(path)
    return str(raw.get("id", raw.get("extends", "")))
