"""Read a fork's configuration from ``patchkit.toml`` or from ``[tool.patchkit]`` in a project file."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from patchkit.errors import UsageError
from patchkit.patchset.malformed import converted, table_in
from patchkit.patchset.select import PART, ForkSettings, PatchSet
from patchkit.tree import project
from patchkit.tree.fork import CONFIGURATION, FILE, FOLDER, checked
from patchkit.tree.limits import MAX_SETTINGS_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from patchkit.patchset.patch import Patch
    from patchkit.tree.fork import DiskFork, Fork, Level

_TABLE = "tool.patchkit"
PATCH = "patch.toml"

Text = Annotated[str, msgspec.Meta(min_length=1)]


class Configuration(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A fork's configuration. Paths are relative to its folder; names are of patches or groups such as ``@mirror``.

    ``patches`` are folders with the fork's own patches. ``chosen`` replaces the default patches, and ``left_out`` are
    patches that are never applied unless they are named, and parts of patches, such as ``26128/guards``, that never
    are. ``runtime`` and ``baseline`` are the options of these names, and ``subject_prefix`` starts the subject of every
    commit.
    """

    patches: tuple[Text, ...] = ()
    chosen: tuple[Text, ...] | UnsetType = UNSET
    left_out: tuple[Text, ...] = ()
    runtime: Literal["import", "vendored"] | UnsetType = UNSET
    baseline: str = ""
    subject_prefix: str = ""


class ConfigurationFile(NamedTuple):
    """A fork's configuration, its file, and the folder to which its paths are relative."""

    file: str
    content: Configuration
    fork: Fork
    root: str

    def refusal(self, key: str, why: object) -> UsageError:
        """Return the error for the value of a key."""
        return UsageError(
            f"key `{key}`: {str(why).removesuffix('.')}", where=self.file, advice="fix it and try again"
        )

    def place(self, key: str, path: str) -> str:
        """Return the name of a path that a key has. Raise UsageError if it leads out of the configuration's folder."""
        try:
            return posixpath.join(self.root, checked(path)).rstrip("/")
        except ValueError as error:
            raise self.refusal(key, error) from None

    def folder(self, name: str) -> list[str]:
        """Return the patch files in a folder or directly below it. Raise UsageError if there are none."""
        folder = self.place("patches", name)
        alone = f"{folder}/{PATCH}".removeprefix("/")
        if folder and self.fork.kind(folder) != FOLDER:
            raise self.refusal(
                "patches", f"{name!r} is not a folder of the repository (links are not followed)"
            )
        places = [alone]
        if not self.fork.kind(alone):
            inside = (f"{folder}/{name}".removeprefix("/") for name in self.fork.inside(folder))
            places = [
                f"{folder_inside}/{PATCH}"
                for folder_inside in inside
                if self.fork.kind(f"{folder_inside}/{PATCH}")
            ]
        if not places:
            raise self.refusal("patches", f"no {PATCH} in {name!r} or directly below it")
        for place in places:
            if self.fork.kind(place) != FILE:
                raise UsageError(
                    f"{self.fork.label(place)} is not a regular file",
                    advice="replace it with the file itself",
                )
        return places


def read(fork: Fork) -> ConfigurationFile | None:
    """Return the nearest configuration of a fork, or None.

    Raise UsageError, with file, key and reason, if it is malformed, or if there are several at its level.
    """
    for level in fork.levels:
        readers = ((_own, CONFIGURATION), (_project, project.FILE))
        candidates = (of(fork, level.root, name) for of, file in readers for name in _files(level, file))
        files = [file for file in candidates if file]
        if len(files) > 1:
            raise UsageError(
                f"{files[0].file} and {files[1].file} both configure patchkit", advice="keep one of them"
            )
        if files:
            return files[0]
    return None


def _files(level: Level, file: str) -> Iterator[str]:
    return (posixpath.join(folder, file) for folder in level.folders)


def baseline_of(fork: DiskFork) -> Path | None:
    """Return the configured baseline file, or None."""
    file = read(fork)
    if file is None or not file.content.baseline:
        return None
    name = file.place("baseline", file.content.baseline)
    if fork.kind(name) != FILE:
        raise file.refusal("baseline", f"{file.content.baseline!r} is not a regular file of the repository")
    return fork.path(name)


def _own(fork: Fork, root: str, name: str) -> ConfigurationFile | None:
    kind = fork.kind(name)
    if kind not in {"", FILE}:
        raise UsageError(
            f"{fork.label(name)} is not a regular file", advice="replace it with the file itself"
        )
    return _configured(fork, root, fork.label(name), _table(fork, name)) if kind else None


def _project(fork: Fork, root: str, name: str) -> ConfigurationFile | None:
    # Links are skipped: git's objects contain a link's target, not its content.
    if fork.kind(name) != FILE or b"patchkit" not in fork.read(name):
        return None
    table: Any = _table(fork, name)
    for key in _TABLE.split("."):
        table = table.get(key) if isinstance(table, dict) else None
        if table is None:
            return None
    return _configured(fork, root, f"{fork.label(name)} [{_TABLE}]", table)


def _table(fork: Fork, name: str) -> dict[str, Any]:
    data = fork.read(name)
    if len(data) > MAX_SETTINGS_BYTES:
        raise UsageError(
            f"{fork.label(name)} has more than {MAX_SETTINGS_BYTES // 2**10} KiB",
            advice="make it shorter and try again",
        )
    return table_in(data, fork.label(name))


def _configured(fork: Fork, root: str, file: str, table: object) -> ConfigurationFile:
    loaded = ConfigurationFile(file, converted(table, Configuration, file), fork, root)
    if not loaded.content.subject_prefix.isprintable():
        raise loaded.refusal("subject_prefix", "contains a line break or a control character")
    return loaded


def configured(patches: PatchSet, file: ConfigurationFile) -> PatchSet:
    """Return the patches as a fork configures them. Raise UsageError, with the key, for a contradiction."""
    content, own_default = file.content, {patch.id for patch in patches if patch.default}
    parts = [name for name in content.left_out if patches.is_part(name) and name not in patches.former]
    whole = [name for name in content.left_out if name not in parts]
    left_out = _ids(patches, file, "left_out", whole, whole_group=True)
    # A patch that requires one that is left out cannot be on either.
    needing: dict[str, str] = {}
    for patch in patches:
        missing = next((name for name in patch.requires if name in left_out or name in needing), None)
        if missing is not None and patch.id not in left_out:
            needing[patch.id] = missing
    enabled = own_default
    if content.chosen is not UNSET:
        chosen = _ids(patches, file, "chosen", content.chosen)
        for name in content.chosen:
            if name in left_out:
                raise file.refusal("chosen", f"{name} is in `left_out` too")
            if name in needing:
                raise file.refusal("chosen", f"{name} requires {needing[name]}, which `left_out` leaves out")
        enabled = {patch.id for patch in patches.select(sorted(chosen))} if chosen else set()
    enabled = enabled - left_out - needing.keys()
    name = file.file.rpartition("/")[2].rpartition(":")[2]

    def why(patch: Patch) -> str:
        if patch.id in left_out:
            return f"in `left_out` of {name}"
        if patch.id in needing:
            return f"it requires {needing[patch.id]}, which is in `left_out` of {name}"
        return f"not in `chosen` of {name}" if patch.default and patch.id not in enabled else ""

    settings = ForkSettings(
        file=file.file,
        left_out=frozenset(left_out),
        on_in_groups=frozenset((own_default | enabled) - left_out - needing.keys()),
        runtime="" if content.runtime is UNSET else content.runtime,
        subject_prefix=content.subject_prefix,
    )
    changed = [
        msgspec.structs.replace(
            patch,
            default=patch.id in enabled,
            left_out=why(patch),
            parts=tuple(
                msgspec.structs.replace(part, left_out=f"in `left_out` of {name}")
                if f"{patch.id}{PART}{part.name}" in parts
                else part
                for part in patch.parts
            ),
        )
        for patch in patches
    ]
    return PatchSet(changed, patches.digest, settings)


def _ids(
    patches: PatchSet, file: ConfigurationFile, key: str, names: Sequence[str], *, whole_group: bool = False
) -> set[str]:
    """Return the ids that names denote; a group denotes those that are on or, with ``whole_group``, all."""
    ids: set[str] = set()
    for name in names:
        try:
            ids.update(patches.named([name], whole_groups=whole_group))
        except UsageError as error:
            raise file.refusal(key, error) from None
    return ids
