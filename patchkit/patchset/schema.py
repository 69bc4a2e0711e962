"""The form of a patch file, ``schema = 1``, with every key of every kind of edit."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from patchkit.codemods.kinds import KINDS
from patchkit.patchset.header import Name, PatchHeader

if TYPE_CHECKING:
    from patchkit.codemods.kind import Kind

    AnyKind = Kind
else:
    AnyKind = functools.reduce(operator.or_, KINDS.values())


class PatchFile(PatchHeader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A patch as its file says it; ``imports`` come with each edit whose code has a name that one binds.

    ``upstream`` is a link and ``upstream_commit`` the commit that brought the change there.
    """

    edit: Annotated[dict[Name, AnyKind], msgspec.Meta(min_length=1)]


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a patch file."""
    return msgspec.json.schema(PatchFile)
