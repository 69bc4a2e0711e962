"""Collect the functions and files that patches look into, so that nothing else has to be parsed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from patchkit.codemods.language.pattern import Pattern
from patchkit.patchset.patch import Fact
from patchkit.tree.bodies import NeededBodies

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.patchset.patch import Edit, Patch

_DEFINED = re.compile(r"^[ \t]*def (\w+)", re.MULTILINE)


def needed_bodies(patches: Iterable[Patch]) -> NeededBodies:
    """Return the functions and files that patches' edits and facts look into; a function counts in every file."""
    names: set[str] = set()
    files: set[str] = set()
    around: set[str] = set()
    seeking: set[tuple[str, frozenset[str]]] = set()
    for patch in patches:
        looking: list[Fact | Edit] = [*patch.facts]
        looking += [edit for edit in patch.edits if edit.kind.looks_inside]
        for place in looking:
            last = {scope.rsplit(".", 1)[-1] for scope in place.scopes}
            words = _words(place)
            if words is None:
                names |= last
            else:
                seeking |= {(name, word) for name in last for word in words}
            around |= {name for scope in place.scopes for name in scope.split(".")[:-1]}
            files |= set(place.files) if "" in place.scopes else set()
        for edit in patch.edits:
            for code in edit.kind.written:
                names |= set(_DEFINED.findall(code))
    return NeededBodies(frozenset(names - {""}), frozenset(files), frozenset(around), frozenset(seeking))


def _words(place: Fact | Edit) -> list[frozenset[str]] | None:
    """Return the words of each pattern of a fact, or None if a place is looked into for more than patterns.

    Patterns alone decide a fact. An edit needs its complete function, also to name the nearest code in a message.
    """
    if not isinstance(place, Fact):
        return None
    sets: list[frozenset[str]] = []
    for code in filter(None, (place.has, place.lacks)):
        words = Pattern.compile(code).needed
        if words is None:
            return None
        sets.append(frozenset(filter(str.isascii, words)))  # A source may spell others in its own encoding.
    return sets
