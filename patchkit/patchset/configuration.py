"""What a fork wants, which it says once: in ``patchkit.toml``, or in ``[tool.patchkit]`` of a project file."""

from __future__ import annotations

import difflib
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from patchkit.errors import UsageError
from patchkit.patchset.select import GROUP, PatchSet, Wishes
from patchkit.tree.fork import FILE, FOLDER, checked
from patchkit.tree.limits import MAX_SETTINGS_BYTES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.patchset.patch import Patch
    from patchkit.tree.fork import DiskFork, Fork

NAME = "patchkit.toml"
PROJECT = "pyproject.toml"
_TABLE = "tool.patchkit"
PATCH = "patch.toml"
_AT = re.compile(r"(?P<why>.*?)(?: - at `\$\.?(?P<key>\w*).*`)?", re.DOTALL)

Text = Annotated[str, msgspec.Meta(min_length=1)]


class Configuration(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What a fork wants: paths are relative to its root, names are those of patches and of groups such as ``@speed``.

    ``patches`` are folders of its own patches. ``chosen`` is what is on where nobody names a patch, instead of all that
    is on by default, and ``left_out`` what is not. ``runtime`` and ``baseline`` are the options of that name, and
    ``subject_prefix`` is what the subject of each commit begins with.
    """

    patches: tuple[Text, ...] = ()
    chosen: tuple[Text, ...] | UnsetType = UNSET
    left_out: tuple[Text, ...] = ()
    runtime: Literal["import", "vendored"] | UnsetType = UNSET
    baseline: str = ""
    subject_prefix: str = ""


@dataclass(frozen=True)
class Configured:
    """A fork's configuration, and the file that has it."""

    file: str
    content: Configuration
    fork: Fork

    def refusal(self, key: str, why: object) -> UsageError:
        """Return the error for what a key says."""
        return UsageError(f"{self.file}: key `{key}`: {str(why).removesuffix('.')}; mend it and try again.")

    def folder(self, name: str) -> list[str]:
        """Return the patch files of a folder, its own or one in each folder below; UsageError if it has none."""
        try:
            folder = checked(name)
        except ValueError as error:
            raise self.refusal("patches", error) from None
        alone = f"{folder}/{PATCH}".removeprefix("/")
        if folder and self.fork.kind(folder) != FOLDER:
            raise self.refusal("patches", f"{name!r} is no folder of the repository, or a link")
        places = [alone]
        if not self.fork.kind(alone):
            inside = (f"{folder}/{each}".removeprefix("/") for each in self.fork.inside(folder))
            places = [f"{each}/{PATCH}" for each in inside if self.fork.kind(f"{each}/{PATCH}")]
        if not places:
            raise self.refusal("patches", f"no {PATCH} in {name!r} or one folder below")
        for place in places:
            if self.fork.kind(place) != FILE:
                raise UsageError(f"{self.fork.label(place)} is no file: put the file itself there.")
        return places


def read(fork: Fork) -> Configured | None:
    """Return a fork's configuration, None where it has none; UsageError names the file, the key and the reason."""
    _, *projects = places(fork)
    found = [known for known in (_own(fork), *(_project(fork, name) for name in projects)) if known]
    if len(found) > 1:
        raise UsageError(f"{found[0].file} and {found[1].file} both configure patchkit: keep one of them.")
    return found[0] if found else None


def places(fork: Fork) -> tuple[str, ...]:
    """Return the names of the files that may have a fork's configuration."""
    return (NAME, *(f"{folder}/{PROJECT}".removeprefix("/") for folder in fork.projects))


def baseline_of(fork: DiskFork) -> Path | None:
    """Return the file of known findings that a fork names, None where it names none."""
    known = read(fork)
    if known is None or not known.content.baseline:
        return None
    try:
        name = checked(known.content.baseline)
    except ValueError as error:
        raise known.refusal("baseline", error) from None
    if fork.kind(name) != FILE:
        raise known.refusal("baseline", f"{known.content.baseline!r} is no file of the repository, or a link")
    return fork.path(name)


def _own(fork: Fork) -> Configured | None:
    kind = fork.kind(NAME)
    if kind not in {"", FILE}:
        raise UsageError(f"{fork.label(NAME)} is no file: put the file itself there.")
    return _configured(fork, fork.label(NAME), _table(fork, NAME)) if kind else None


def _project(fork: Fork, name: str) -> Configured | None:
    # Where a project file is a link, git's objects do not have what it says.
    if fork.kind(name) != FILE or b"patchkit" not in fork.read(name):
        return None
    table: Any = _table(fork, name)
    for key in _TABLE.split("."):
        table = table.get(key) if isinstance(table, dict) else None
        if table is None:
            return None
    return _configured(fork, f"{fork.label(name)} [{_TABLE}]", table)


def _table(fork: Fork, name: str) -> dict[str, Any]:
    data = fork.read(name)
    if len(data) > MAX_SETTINGS_BYTES:
        raise UsageError(
            f"{fork.label(name)} has more than {MAX_SETTINGS_BYTES // 2**10} KiB: make it shorter and try again."
        )
    try:
        return tomllib.loads(data.decode("utf-8"))
    except ValueError as error:  # A number may have too many digits as well.
        raise UsageError(f"{fork.label(name)}: not TOML ({error}); mend it and try again.") from None
    except RecursionError:
        raise UsageError(
            f"{fork.label(name)}: tables or lists nest too deep to be read; mend it and try again."
        ) from None


def _configured(fork: Fork, file: str, table: object) -> Configured:
    keys = Configuration.__struct_fields__
    for key in table if isinstance(table, dict) else ():
        if key not in keys:
            close = difflib.get_close_matches(key, keys, n=1)
            hint = f"did you mean `{close[0]}`? " if close else ""
            names = ", ".join(f"`{each}`" for each in keys)
            raise UsageError(f"{file}: key `{key}`: there is none of that name; {hint}the keys are {names}.")
    try:
        known = Configured(file, msgspec.convert(table, Configuration), fork)
    except msgspec.ValidationError as error:
        at = _AT.fullmatch(str(error))
        key, why = (at["key"] or "", at["why"]) if at else ("", str(error))
        raise UsageError(f"{file}: {f'key `{key}`: ' if key else ''}{why}; mend it and try again.") from None
    if not known.content.subject_prefix.isprintable():
        raise known.refusal("subject_prefix", "more than one line, or a control character")
    return known


def configured(patches: PatchSet, known: Configured) -> PatchSet:
    """Return the patches as a fork wants them; UsageError names the key that asks for what cannot be."""
    said, own_default = known.content, {patch.id for patch in patches if patch.default}
    left = _ids(patches, known, "left_out", said.left_out, everyone=True)
    # What requires a patch that is left out cannot be on either.
    needing: dict[str, str] = {}
    for patch in patches:
        lost = next((name for name in patch.requires if name in left or name in needing), None)
        if lost is not None and patch.id not in left:
            needing[patch.id] = lost
    on = own_default
    if said.chosen is not UNSET:
        chosen = _ids(patches, known, "chosen", said.chosen)
        for name in said.chosen:
            if name in left:
                raise known.refusal("chosen", f"{name} is in `left_out` too")
            if name in needing:
                raise known.refusal("chosen", f"{name} requires {needing[name]}, which `left_out` leaves out")
        on = {patch.id for patch in patches.select(sorted(chosen))} if chosen else set()
    on = on - left - needing.keys()
    name = known.file.rpartition("/")[2].rpartition(":")[2]

    def why(patch: Patch) -> str:
        if patch.id in left:
            return f"{name} leaves it out"
        if patch.id in needing and patch.default:
            return f"it requires {needing[patch.id]}, which {name} leaves out"
        return f"{name} does not choose it" if patch.default and patch.id not in on else ""

    wishes = Wishes(
        file=known.file,
        left_out=frozenset(left),
        on_in_groups=frozenset((own_default | on) - left - needing.keys()),
        runtime="" if said.runtime is UNSET else said.runtime,
        subject_prefix=said.subject_prefix,
    )
    changed = [
        msgspec.structs.replace(patch, default=patch.id in on, left_out=why(patch)) for patch in patches
    ]
    return PatchSet(changed, patches.digest, wishes)


def _ids(
    patches: PatchSet, known: Configured, key: str, names: Sequence[str], *, everyone: bool = False
) -> set[str]:
    """Return the ids that names stand for, of a group those that are on, or ``everyone``."""
    found: set[str] = set()
    for name in names:
        try:
            if everyone and name.startswith(GROUP):
                found.update(patch.id for patch in patches.group(name))
            else:
                found.update(patches.named([name]))
        except UsageError as error:
            raise known.refusal(key, error) from None
    return found


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``patchkit.toml``, which is that of ``[tool.patchkit]`` too."""
    return msgspec.json.schema(Configuration)
