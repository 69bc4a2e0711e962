"""The schema of a patch file (``schema = 1``), with every key of every kind of edit."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING

import msgspec

from patchkit.codemods.kinds import KINDS
from patchkit.patchset.header import Name, PatchHeader

if TYPE_CHECKING:
    from patchkit.codemods.kind import Kind

    AnyKind = Kind
else:
    AnyKind = functools.reduce(operator.or_, KINDS.values())


class PatchFile(PatchHeader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A patch file. Each of ``imports`` is added with the edits whose code uses a name that it binds.

    ``upstream`` is a link, and ``upstream_commit`` the commit that made the change upstream.
    """

    edit: dict[Name, AnyKind] = msgspec.field(default_factory=dict)
