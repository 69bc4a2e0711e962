"""Read a patch file without converting its edits, which is enough to list patches and the files that they name."""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003  # read when a file is decoded
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec

from patchkit.codemods.kind import Keys, Kind, Places, Site, several
from patchkit.errors import UsageError
from patchkit.patchset.diffs import edits_of
from patchkit.patchset.patch import Affects, ConvertedChange, Edit, Fact, Part, Patch, addresses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from patchkit.patchset.patch import BasedDiff, SiteChange

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
Name = Annotated[str, msgspec.Meta(pattern=_NAME)]


class FactTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A place that a tree has, with code that matches ``has`` and none that matches ``lacks``.

    ``why`` is the reason why the patch is not for a tree without it.
    """

    at: Places
    has: str = ""
    lacks: str = ""
    why: str = ""


Facts = tuple[str | FactTable, ...]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words and conditions that a patch and each part of it have."""

    title: str
    why: str
    upstream: str = ""
    upstream_commit: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{40})?$")] = ""
    no_switch: str = ""
    shapes: dict[str, Facts] = {}
    any_shape_of: tuple[str, ...] = ()
    applies_when: Facts = ()
    upstream_when: Facts = ()


class PartTable(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a patch: what makes it safe or completes it, with words and conditions of its own."""

    risk: str = ""
    formerly: str = ""


class PatchHeader(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A patch file, with the keys of its edits that every kind of edit has."""

    schema: Literal[1]
    id: Name
    group: Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$")] = ""
    risk: str
    verify: str
    remove_when: str = ""
    affects: Affects | None = None
    default: bool = True
    requires: tuple[str, ...] = ()
    part: dict[Name, PartTable] = {}
    imports: tuple[str, ...] = ()
    edit: Mapping[Name, Keys] = {}


class OwnFile(NamedTuple):
    """A patch file of a folder other than the built-in one, and the files of its diffs by their names beside it."""

    raw: dict[str, Any]
    path: Path
    diffs: Mapping[str, bytes]


def require_name(identifier: str) -> None:
    """Raise UsageError if no patch can have this id."""
    if not re.fullmatch(_NAME, identifier):
        raise UsageError(
            f"PATCH-ID {identifier!r} is not a valid id",
            advice="use letters, digits, `.`, `_` and `-`, and start with a letter or a digit, such as my-fix",
        )


def require_free(identifier: str, path: Path, paths: Mapping[str, Path]) -> None:
    """Raise UsageError if another patch, whose file is in ``paths``, has the id of the patch at ``path``."""
    if identifier in paths:
        raise UsageError(
            f"key `id`: {identifier!r} is taken by {paths[identifier]}",
            where=path,
            advice="choose another id",
        )


def unknown_patch(key: str, name: str, former: Mapping[str, str], path: Path) -> UsageError:
    """Return the error for a key that names a patch that is not loaded, or one of ``former_ids``."""
    if name in former:
        whole = former[name].partition("/")[0]
        return UsageError(
            f"key `{key}`: {name} is the part {former[name]} now", where=path, advice=f"write {whole}"
        )
    return UsageError(
        f"key `{key}`: no patch is called {name!r}",
        where=path,
        advice="fix the name, or load its folder with --patches",
    )


def patch_of(
    file: PatchHeader, path: Path, late: Iterable[SiteChange] = (), diffs: tuple[BasedDiff, ...] = ()
) -> Patch:
    """Return the patch that the file at ``path`` defines. Raise UsageError, with file, key and reason, if malformed.

    If the edits of ``file`` are not converted yet, their changes are taken from ``late``, in order. ``diffs`` are those
    of its folder, which a patch has in place of edits.
    """
    try:
        patch = _patch(file, iter(late), diffs)
        # `$` in the schema's patterns also matches before a final line feed.
        parts = [part.name for part in patch.parts]
        for name in (patch.id, patch.group, *parts, *(edit.name for edit in patch.edits)):
            if not name.isprintable():
                raise ValueError(
                    f"key `id`, `group` or the name of a part or edit: {name!r} ends in a line break"
                )
        for part in patch.all_parts:
            start = f"part.{part.name}." if part.name else ""
            for key in ("title", "why", "risk", "upstream"):
                if "\0" in getattr(part, key):
                    raise ValueError(f"key `{start}{key}`: a NUL character, which no commit message can have")
            if part.upstream and not re.fullmatch(r"https?://\S+", part.upstream):
                raise ValueError(f"key `{start}upstream`: {part.upstream!r} is not an http or https address")
        return patch
    except ValueError as error:
        raise UsageError(str(error), where=path, advice="fix it and try again") from None


def _patch(file: PatchHeader, late: Iterator[SiteChange], diffs: tuple[BasedDiff, ...]) -> Patch:
    if bool(file.edit) is bool(diffs):
        raise ValueError(
            "key `edit`: a patch has either edits or, beside its patch.toml, a change.diff"
            if diffs
            else "key `edit`: missing, and no change.diff is beside the file"
        )
    if diffs and (file.shapes or file.imports or file.any_shape_of or file.part):
        raise ValueError(
            "keys `shapes`, `any_shape_of`, `imports` and `part`: only for edits, and this patch is a diff"
        )
    edits = tuple(edit for name, keys in file.edit.items() for edit in _edits(name, keys, file.imports, late))
    _require_parts(file, edits)
    parts = tuple(Part(name=name, **_stated(part)) for name, part in file.part.items())
    return Patch(parts=parts, edits=edits or edits_of(diffs), diffs=diffs, **_stated(file))


def _stated(table: PatchHeader | PartTable) -> dict[str, Any]:
    """Return what a patch or a part has as its table has it, and what it asks of a tree."""
    keys = {*table.__struct_fields__}.intersection(Patch.__struct_fields__)
    return {key: getattr(table, key) for key in keys} | {
        "shapes": {name: tuple(map(_fact, facts)) for name, facts in table.shapes.items()},
        "applies_when": tuple(map(_fact, table.applies_when)),
        "upstream_when": tuple(map(_fact, table.upstream_when)),
    }


def _require_parts(file: PatchHeader, edits: Sequence[Edit]) -> None:
    """Raise ValueError for an edit or a condition that names a part or a shape that its patch or part lacks."""
    words: dict[str, str] = {}
    for edit in edits:
        if edit.part and edit.part not in file.part:
            choices = ", ".join(file.part) or "none"
            raise ValueError(f"key `edit.{edit.name}.part`: `{edit.part}` is not one of [part] ({choices})")
        if words.setdefault(edit.why, edit.part) != edit.part:
            raise ValueError(
                f"key `edit.{edit.name}.why`: {edit.why!r} is that of an edit of another part, and a comment in the "
                "code would not tell which"
            )
    tables: dict[str, PatchHeader | PartTable] = {"": file, **file.part}
    for name, table in tables.items():
        start = f"part.{name}." if name else ""
        if name and not any(edit.part == name for edit in edits):
            raise ValueError(f"key `part.{name}`: no edit has `part = {name!r}`")
        asked = ((f"edit.{edit.name}.shape", edit.shapes) for edit in edits if edit.part == name)
        for key, shapes in ((f"{start}any_shape_of", table.any_shape_of), *asked):
            for shape in shapes:
                if shape not in table.shapes:
                    choices = ", ".join(sorted(table.shapes)) or "none"
                    raise ValueError(f"key `{key}`: `{shape}` is not one of [{start}shapes] ({choices})")


def _fact(stated: str | FactTable) -> Fact:
    if isinstance(stated, str):
        return Fact(addresses=addresses([stated]))
    return Fact(addresses=addresses(several(stated.at)), has=stated.has, lacks=stated.lacks, why=stated.why)


def _edits(name: str, keys: Keys, imports: tuple[str, ...], late: Iterator[SiteChange]) -> Iterator[Edit]:
    """Yield the edits of one table: one, or one for each of its sites."""
    if keys.at is not None:
        sites: tuple[str | Site, ...] = (Site(at=keys.at),)
    else:
        sites = keys.sites
    if bool(keys.sites) is (keys.at is not None):
        raise ValueError(f"edit.{name}: needs exactly one of the keys `at` and `sites`")
    shared = _converted(keys, imports) if isinstance(keys, Kind) else None
    for number, stated in enumerate(sites, start=1):
        site = Site(at=stated) if isinstance(stated, str) else stated
        try:
            where = addresses(several(site.at))
            change = shared._replace(kind=_of_site(shared.kind, site.names)) if shared else next(late)
        except ValueError as error:
            raise ValueError(f"edit.{name}: {error}") from None
        yield Edit(
            name=name if keys.at is not None else f"{name}.{number}",
            why=site.why or keys.why,
            change=change,
            addresses=where,
            part=keys.part,
            shapes=several(site.shape or keys.shape),
            optional=site.optional or keys.optional,
            beyond_upstream=site.beyond_upstream or keys.beyond_upstream,
        )


def _converted(kind: Kind, imports: tuple[str, ...]) -> ConvertedChange:
    """Return the change of an edit at each of its sites, with the patch's imports that its code uses."""
    needed = (*(code for code in imports if _is_used(code, kind)), *kind.imports)
    return ConvertedChange(msgspec.structs.replace(kind, sites=()), tuple(dict.fromkeys(needed)))


def _of_site(kind: Kind, names: Mapping[str, str]) -> Kind:
    """Return the edit for one site, with its placeholders replaced by the site's ``names``."""
    if not names:
        return kind
    text = msgspec.json.encode(kind).decode()
    for placeholder, name in names.items():
        if not (placeholder.isidentifier() and name.isidentifier()):
            raise ValueError(f"key `names`: {placeholder} = {name!r}: both must be identifiers")
        text, count = re.subn(rf"(?<!\$)\${placeholder}\b", name, text)
        if not count:
            raise ValueError(f"key `names`: the edit has no ${placeholder}")
    return msgspec.json.decode(text, type=type(kind))


def _is_used(code: str, kind: Kind) -> bool:
    """Return whether the code that an edit writes uses a name that an import statement binds."""
    listed = code.rpartition("import ")[2].strip("() \n").split(",")
    names = (name.rpartition(" as ")[2].strip().partition(".")[0] for name in listed)
    return any(re.search(rf"\b{re.escape(name)}\b", text) for name in names if name for text in kind.written)
