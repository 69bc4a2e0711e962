"""Extend a patch's edits for a fork: more places, more forms of a site, more forms that count as already changed."""

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
    """What an extension adds to one edit: places (``at``), forms of the change (``already``) and forms of the site.

    A ``find`` without ``code`` uses the edit's own code; ``variants`` adds several forms.
    """

    at: str | tuple[str, ...] = ()
    already: tuple[str, ...] = ()
    find: str | tuple[str, ...] = ()
    code: str = ""
    target: str = ""
    variants: tuple[TargetVariant, ...] = ()


class ExtensionFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An extension of the patch ``extends``: additions by the names of that patch's edits."""

    schema: Literal[1]
    extends: str
    why: str
    imports: tuple[str, ...] = ()
    edit: Annotated[dict[str, Addition], msgspec.Meta(min_length=1)]


def extended(patch: PatchFile, extension: ExtensionFile) -> PatchFile:
    """Return the extended patch. Raise ValueError, with edit and key, for an addition that the edit does not take."""
    edits = dict(patch.edit)
    for name, addition in extension.edit.items():
        if name not in edits:
            raise ValueError(f"edit.{name}: {patch.id} has no edit of that name")
        try:
            edits[name] = extended_kind(edits[name], addition)
        except ValueError as error:
            raise ValueError(f"edit.{name}: {error}") from None
    imports = tuple(dict.fromkeys((*patch.imports, *extension.imports)))
    return msgspec.structs.replace(patch, edit=edits, imports=imports)


def extended_kind(kind: Kind, addition: Addition) -> Kind:
    """Return the extended edit. Raise ValueError, with the key, for an addition that the edit does not take."""
    more: dict[str, Any] = {}
    if addition.at:
        if kind.at is None:
            raise ValueError(
                "key `at`: the edit has several sites, so it is unclear which one this place is for"
            )
        more["at"] = (*several(kind.at), *several(addition.at))
    if addition.already:
        if not hasattr(kind, "already"):
            raise ValueError(f"key `already`: {_tag(kind)} has no such key")
        more["already"] = (*kind.already, *addition.already)
    added = [*addition.variants]
    if addition.find:
        own = getattr(kind, "code", "")
        variant = TargetVariant(find=addition.find, code=addition.code or own, target=addition.target)
        added.insert(0, variant)
    elif addition.code or addition.target:
        raise ValueError("key `find`: missing, and `code` and `target` need it")
    if (
        added
        and isinstance(kind, CallArgument)
        and not any(variant.code or variant.target for variant in added)
    ):
        more["find"] = (*several(kind.find), *(find for variant in added for find in several(variant.find)))
    elif added:
        more["variants"] = (*_variants(kind), *(_fitting(kind, variant) for variant in added))
    return msgspec.structs.replace(kind, **more)


def _variants(kind: Kind) -> tuple[Variant, ...]:
    if not isinstance(kind, StatementKind):
        raise ValueError(f"key `find`: {_tag(kind)} takes only one form of its site")
    return tuple(getattr(kind, "variants", ()))


def _fitting(kind: Kind, variant: TargetVariant) -> Variant:
    if isinstance(kind, Rewrite):
        return variant
    if variant.target:
        raise ValueError(f"key `target`: {_tag(kind)} has no such key")
    return Variant(find=variant.find, code=variant.code)


def _tag(kind: Kind) -> str:
    return str(kind.__struct_config__.tag)
