"""Collect the functions and files that patches look into, so that nothing else has to be parsed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from patchkit.tree.headers import Interest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.patchset.patch import Edit, Fact, Patch

_DEFINED = re.compile(r"^[ \t]*def (\w+)", re.MULTILINE)


def interest_of(patches: Iterable[Patch]) -> Interest:
    """Return the functions and files that patches' edits and facts look into; a function counts in every file."""
    names: set[str] = set()
    files: set[str] = set()
    around: set[str] = set()
    for patch in patches:
        looking: list[Fact | Edit] = [*patch.facts]
        looking += [edit for edit in patch.edits if edit.kind.looks_inside]
        for place in looking:
            names |= {scope.rsplit(".", 1)[-1] for scope in place.scopes}
            around |= {name for scope in place.scopes for name in scope.split(".")[:-1]}
            files |= set(place.files) if "" in place.scopes else set()
        for edit in patch.edits:
            for code in edit.kind.written:
                names |= set(_DEFINED.findall(code))
    return Interest(frozenset(names - {""}), frozenset(files), frozenset(around))
