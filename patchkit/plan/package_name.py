"""Rename packages in patches' code: that of sglang, for forks that renamed it, and the runtime's."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from patchkit.patchset.patch import ConvertedChange, Edit
from patchkit.tree.sglang import NAME, SERVING, VENDORED_RUNTIME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patchkit.patchset.patch import Patch

_CODE = ("edits", "parts", "diffs", "shapes", "applies_when", "upstream_when")


def with_package_name(patches: Sequence[Patch], name: str) -> Sequence[Patch]:
    """Return the patches with their code's imports changed to a package of this name."""
    return patches if name == NAME else translated(patches, lambda code: _renamed(code, NAME, name))


def translated(patches: Sequence[Patch], rename: Callable[[str], str]) -> tuple[Patch, ...]:
    """Return the patches with the result of ``rename`` in place of each piece of their code."""
    return tuple(
        msgspec.structs.replace(patch, **{key: _translated(getattr(patch, key), rename) for key in _CODE})
        for patch in patches
    )


def as_upstream(code: str, name: str) -> str:
    """Return code from a package of this name with its imports changed to upstream's name, as patches use it."""
    return code if name == NAME else _renamed(code, name, NAME)


def _renamed(code: str, name: str, other: str) -> str:
    return _pattern_of(name).sub(other, code)


@cache
def _pattern_of(name: str) -> re.Pattern[str]:
    return re.compile(rf"\b{name}(?=\.(?:{SERVING}|{VENDORED_RUNTIME})\b)|(?<=\bfrom ){name}(?= import\b)")


def _translated(value: Any, rename: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return rename(value)
    if isinstance(value, bytes):
        return rename(value.decode(errors="surrogateescape")).encode(errors="surrogateescape")
    if isinstance(value, ConvertedChange):
        return ConvertedChange(*(_translated(item, rename) for item in value))
    if isinstance(value, tuple):
        return tuple(_translated(item, rename) for item in value)
    if isinstance(value, dict):
        return {key: _translated(item, rename) for key, item in value.items()}
    if isinstance(value, msgspec.Struct):
        return _struct(value, rename)
    return value


def _struct(value: msgspec.Struct, rename: Callable[[str], str]) -> msgspec.Struct:
    before = {key: getattr(value, key) for key in value.__struct_fields__}
    if isinstance(value, Edit):
        before["change"] = ConvertedChange(value.kind, value.imports)
    after = {key: _translated(item, rename) for key, item in before.items()}
    return value if before == after else msgspec.structs.replace(value, **after)
