"""What patches write of the decision about the mirror: the decision itself, and backends that opt out of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from patchkit.tree import mirror

if TYPE_CHECKING:
    from patchkit.patchset.patch import Patch

OPTS_OUT = re.compile(rf"\b{mirror.FLAG}(: *bool)? = False|def {mirror.FLAG}")
"""What lets a backend run without the mirror."""
_TRUE = re.compile(rf"\b{mirror.FLAG}(: *bool)? = True")


def decides(patch: Patch) -> bool:
    """Return whether a patch adds the decision, or declares the flag in the root of all backends."""
    return any(
        f"def {mirror.FLAG}" in code or (in_root and _TRUE.search(code) is not None)
        for edit in patch.edits
        for in_root in [any(scope.rpartition(".")[2] == mirror.BACKEND_ROOT for scope in edit.scopes)]
        for code in edit.kind.written
    )


def opts_out(patch: Patch, cls: str) -> bool:
    """Return whether a patch lets a backend run without the mirror."""
    return any(
        OPTS_OUT.search(code) is not None and any(scope.rpartition(".")[2] == cls for scope in edit.scopes)
        for edit in patch.edits
        for code in edit.kind.written
    )
