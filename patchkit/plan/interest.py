"""What patches look into, so that nothing else has to be parsed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from patchkit.tree.headers import Interest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.patchset.schema import AnyEdit, Fact, Patch

_DEFINED = re.compile(r"^\s*def (\w+)", re.MULTILINE)


def interest_of(patches: Iterable[Patch]) -> Interest:
    """Return what the edits and facts of patches look into; a name counts wherever a tree has it."""
    names: set[str] = set()
    files: set[str] = set()
    for patch in patches:
        facts = patch.facts
        looking: list[tuple[Fact | AnyEdit, tuple[str, ...]]] = [(fact, (fact.scope,)) for fact in facts]
        looking += [(spec, spec.scopes) for spec in patch.edits if spec.looks_inside]
        for place, scopes in looking:
            names |= {scope.rsplit(".", 1)[-1] for scope in scopes}
            files |= set(place.files) if "" in scopes else set()
        for spec in patch.edits:
            names |= set(_DEFINED.findall(getattr(spec, "code", "")))
    return Interest(frozenset(names - {""}), frozenset(files))
