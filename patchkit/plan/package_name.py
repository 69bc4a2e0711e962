"""Translate the package name in patches' code, for forks that renamed the package."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from patchkit.patchset.patch import ConvertedChange, Edit
from patchkit.tree.sglang import NAME, SERVING, VENDORED_RUNTIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.patch import Patch

_CODE = ("edits", "parts", "diffs", "shapes", "applies_when", "upstream_when")


def with_package_name(patches: Sequence[Patch], name: str) -> Sequence[Patch]:
    """Return the patches with their code's imports changed to a package of this name."""
    return patches if name == NAME else [_patch(patch, name) for patch in patches]


def as_upstream(code: str, name: str) -> str:
    """Return code from a package of this name with its imports changed to upstream's name, as patches use it."""
    return code if name == NAME else _renamed(code, name, NAME)


def _renamed(code: str, name: str, other: str) -> str:
    return _pattern_of(name).sub(other, code)


@cache
def _pattern_of(name: str) -> re.Pattern[str]:
    return re.compile(rf"\b{name}(?=\.(?:{SERVING}|{VENDORED_RUNTIME})\b)|(?<=\bfrom ){name}(?= import\b)")


def _patch(patch: Patch, name: str) -> Patch:
    return msgspec.structs.replace(patch, **{key: _translated(getattr(patch, key), name) for key in _CODE})


def _translated(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return _renamed(value, NAME, name)
    if isinstance(value, bytes):
        text = _renamed(value.decode(errors="surrogateescape"), NAME, name)
        return text.encode(errors="surrogateescape")
    if isinstance(value, ConvertedChange):
        return ConvertedChange(*(_translated(item, name) for item in value))
    if isinstance(value, tuple):
        return tuple(_translated(item, name) for item in value)
    if isinstance(value, dict):
        return {key: _translated(item, name) for key, item in value.items()}
    if isinstance(value, msgspec.Struct):
        return _struct(value, name)
    return value


def _struct(value: msgspec.Struct, name: str) -> msgspec.Struct:
    before = {key: getattr(value, key) for key in value.__struct_fields__}
    if isinstance(value, Edit):
        before["change"] = ConvertedChange(value.kind, value.imports)
    after = {key: _translated(item, name) for key, item in before.items()}
    return value if before == after else msgspec.structs.replace(value, **after)
