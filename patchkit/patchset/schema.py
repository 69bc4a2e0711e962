"""The form of a patch file, ``schema = 1``: what msgspec reads, and what that comes to."""

from __future__ import annotations

import functools
import operator
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from patchkit.codemods.kind import Kind, Places, Site
from patchkit.codemods.kinds import KINDS
from patchkit.codemods.language.texts import several
from patchkit.patchset.patch import Edit, Fact, Patch, addresses

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    AnyKind = Kind
else:
    AnyKind = functools.reduce(operator.or_, KINDS.values())

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


class FactTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A place that a tree has, with code like the pattern ``has`` and none like ``lacks``."""

    at: Places
    has: str = ""
    lacks: str = ""


Facts = tuple[str | FactTable, ...]


class PatchFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A patch as its file says it; ``imports`` come with each edit whose code has a name that one binds.

    ``upstream`` is a link and ``upstream_commit`` the commit that brought the change there.
    """

    schema: Literal[1]
    id: Annotated[str, msgspec.Meta(pattern=_NAME)]
    title: str
    why: str
    risk: str
    verify: str
    upstream: str = ""
    upstream_commit: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{40})?$")] = ""
    no_switch: str = ""
    default: bool = True
    requires: tuple[str, ...] = ()
    hardens: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    shapes: dict[str, Facts] = {}
    any_shape_of: tuple[str, ...] = ()
    applies_when: Facts = ()
    upstream_when: Facts = ()
    edit: Annotated[dict[Annotated[str, msgspec.Meta(pattern=_NAME)], AnyKind], msgspec.Meta(min_length=1)]


def patch_of(file: PatchFile) -> Patch:
    """Return the patch that a file says; ValueError names the edit and the key that is wrong."""
    edits = tuple(edit for name, kind in file.edit.items() for edit in _edits(name, kind, file.imports))
    for key, names in (
        ("any_shape_of", file.any_shape_of),
        *((f"edit.{e.name}.shape", e.shapes) for e in edits),
    ):
        for name in names:
            if name not in file.shapes:
                known = ", ".join(sorted(file.shapes)) or "none"
                raise ValueError(f"key `{key}`: `{name}` is not one of [shapes] ({known})")
    return Patch(
        id=file.id,
        title=file.title,
        why=file.why,
        risk=file.risk,
        verify=file.verify,
        upstream=file.upstream,
        upstream_commit=file.upstream_commit,
        no_switch=file.no_switch,
        default=file.default,
        requires=file.requires,
        hardens=file.hardens,
        shapes={name: tuple(map(_fact, facts)) for name, facts in file.shapes.items()},
        any_shape_of=file.any_shape_of,
        applies_when=tuple(map(_fact, file.applies_when)),
        upstream_when=tuple(map(_fact, file.upstream_when)),
        edits=edits,
    )


def _fact(told: str | FactTable) -> Fact:
    if isinstance(told, str):
        return Fact(addresses=addresses([told]))
    return Fact(addresses=addresses(several(told.at)), has=told.has, lacks=told.lacks)


def _edits(name: str, kind: Kind, imports: tuple[str, ...]) -> Iterator[Edit]:
    """Yield the edits of one table: one, or one for each of its sites."""
    needed = (*(code for code in imports if _is_used(code, kind)), *kind.imports)
    if kind.at is not None:
        sites: tuple[str | Site, ...] = (Site(at=kind.at),)
    else:
        sites = kind.sites
    if bool(kind.sites) is (kind.at is not None):
        raise ValueError(f"edit.{name}: say where by one of `at` and `sites`")
    alone = msgspec.structs.replace(kind, sites=())
    for number, told in enumerate(sites, start=1):
        site = Site(at=told) if isinstance(told, str) else told
        try:
            where, there = addresses(several(site.at)), _of_site(alone, site.names)
        except ValueError as error:
            raise ValueError(f"edit.{name}: {error}") from None
        yield Edit(
            name=name if kind.at is not None else f"{name}.{number}",
            why=site.why or kind.why,
            kind=there,
            addresses=where,
            shapes=several(site.shape or kind.shape),
            optional=site.optional or kind.optional,
            beyond_upstream=site.beyond_upstream or kind.beyond_upstream,
            imports=tuple(dict.fromkeys(needed)),
        )


def _of_site(kind: Kind, names: Mapping[str, str]) -> Kind:
    """Return the edit as it is at one site, whose ``names`` stand where their placeholders did."""
    if not names:
        return kind
    text = msgspec.json.encode(kind).decode()
    for placeholder, name in names.items():
        if not (placeholder.isidentifier() and name.isidentifier()):
            raise ValueError(f"key `names`: {placeholder} = {name!r} is not one name for another")
        text, count = re.subn(rf"(?<!\$)\${placeholder}\b", name, text)
        if not count:
            raise ValueError(f"key `names`: the edit has no ${placeholder}")
    return msgspec.json.decode(text, type=type(kind))


def _is_used(code: str, kind: Kind) -> bool:
    """Tell whether the code that an edit writes has a name that an import statement binds."""
    listed = code.rpartition("import ")[2].strip("() \n").split(",")
    names = (each.rpartition(" as ")[2].strip().partition(".")[0] for each in listed)
    return any(re.search(rf"\b{re.escape(name)}\b", text) for name in names if name for text in kind.written)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a patch file."""
    return msgspec.json.schema(PatchFile)
