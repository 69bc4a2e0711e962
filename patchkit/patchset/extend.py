"""A folder of one's own adds to a patch's edits what a fork has: further ways to find a site, or to have the change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from patchkit.codemods.kind import Kind, several
from patchkit.codemods.kinds.call_argument import CallArgument
from patchkit.codemods.kinds.rewrite import Rewrite
from patchkit.codemods.language.variants import StatementKind, TargetVariant, Variant

if TYPE_CHECKING:
    from patchkit.codemods.kind import Kind
    from patchkit.patchset.schema import PatchFile


class Addition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one edit gets: places behind its own, ways to have the change, ways to find the site.

    A ``find`` without ``code`` gets the edit's own; ``variants`` are for several.
    """

    at: str | tuple[str, ...] = ()
    already: tuple[str, ...] = ()
    find: str | tuple[str, ...] = ()
    code: str = ""
    target: str = ""
    variants: tuple[TargetVariant, ...] = ()


class ExtensionFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a folder says that adds to the patch called ``extends``, by the names of that patch's edits."""

    schema: Literal[1]
    extends: str
    why: str
    imports: tuple[str, ...] = ()
    edit: Annotated[dict[str, Addition], msgspec.Meta(min_length=1)]


def extended(patch: PatchFile, extension: ExtensionFile) -> PatchFile:
    """Return the patch with what the extension adds; ValueError names the edit and the key that cannot be."""
    edits = dict(patch.edit)
    for name, addition in extension.edit.items():
        if name not in edits:
            raise ValueError(f"edit.{name}: {patch.id} has no edit of that name")
        try:
            edits[name] = grown(edits[name], addition)
        except ValueError as error:
            raise ValueError(f"edit.{name}: {error}") from None
    imports = tuple(dict.fromkeys((*patch.imports, *extension.imports)))
    return msgspec.structs.replace(patch, edit=edits, imports=imports)


def grown(kind: Kind, addition: Addition) -> Kind:
    """Return an edit with what is added to it; ValueError names the key that cannot be."""
    more: dict[str, Any] = {}
    if addition.at:
        if kind.at is None:
            raise ValueError(
                "key `at`: it has several sites, so that a further place belongs to none of them"
            )
        more["at"] = (*several(kind.at), *several(addition.at))
    if addition.already:
        if not hasattr(kind, "already"):
            raise ValueError(f"key `already`: {_tag(kind)} has none")
        more["already"] = (*kind.already, *addition.already)
    ways = [*addition.variants]
    if addition.find:
        own = getattr(kind, "code", "")
        way = TargetVariant(find=addition.find, code=addition.code or own, target=addition.target)
        ways.insert(0, way)
    elif addition.code or addition.target:
        raise ValueError("key `find`: missing, so that `code` and `target` belong to nothing")
    if ways and isinstance(kind, CallArgument) and not any(way.code or way.target for way in ways):
        more["find"] = (*several(kind.find), *(find for way in ways for find in several(way.find)))
    elif ways:
        more["variants"] = (*_variants(kind), *(_fitting(kind, way) for way in ways))
    return msgspec.structs.replace(kind, **more)


def _variants(kind: Kind) -> tuple[Variant, ...]:
    if not isinstance(kind, StatementKind):
        raise ValueError(f"key `find`: {_tag(kind)} finds its site in one way")
    return tuple(getattr(kind, "variants", ()))


def _fitting(kind: Kind, way: TargetVariant) -> Variant:
    if isinstance(kind, Rewrite):
        return way
    if way.target:
        raise ValueError(f"key `target`: {_tag(kind)} replaces nothing")
    return Variant(find=way.find, code=way.code)


def _tag(kind: Kind) -> str:
    return str(kind.__struct_config__.tag)
