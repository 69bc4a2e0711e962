"""Collect the functions and files that patches look into, so that nothing else has to be parsed."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from patchkit.codemods.language.pattern import Pattern
from patchkit.patchset.patch import Fact
from patchkit.tree.bodies import NeededBodies

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from patchkit.patchset.patch import Edit, Patch

_DEFINED = re.compile(r"^[ \t]*def (\w+)", re.MULTILINE)


def needed_bodies(patches: Iterable[Patch]) -> NeededBodies:
    """Return the functions and files that patches' edits and facts look into, in any file and in those they name."""
    anywhere = [NeededBodies(frozenset(), frozenset())]
    own = defaultdict[str, list[NeededBodies]](list)
    for patch in patches:
        looking: list[Fact | Edit] = [*patch.facts]
        looking += [edit for edit in patch.edits if edit.kind.looks_inside]
        wanted = [(place.files, _needed(place)) for place in looking]
        for edit in patch.edits:
            defined = (name for code in edit.kind.written for name in _DEFINED.findall(code))
            wanted.append((edit.files, NeededBodies(frozenset(defined), frozenset())))
        for files, need in wanted:
            for needs in (anywhere, *(own[file] for file in files)):
                needs.append(need)
    return _together(anywhere, {file: _together(needs, {}) for file, needs in own.items()})


def _together(needs: Iterable[NeededBodies], own: Mapping[str, NeededBodies]) -> NeededBodies:
    sets = zip(*((need.names, need.files, need.around, need.seeking) for need in needs), strict=True)
    names, files, around, seeking = (frozenset[Any]().union(*several) for several in sets)
    return NeededBodies(names, files, around, seeking, own)


def _needed(place: Fact | Edit) -> NeededBodies:
    last = {scope.rsplit(".", 1)[-1] for scope in place.scopes}
    around = frozenset(name for scope in place.scopes for name in scope.split(".")[:-1])
    words = _words(place)
    if words is None:
        files = frozenset(place.files if "" in place.scopes else ())
        return NeededBodies(frozenset(last - {""}), files, around)
    seeking = frozenset((name, word) for name in last for word in words)
    return NeededBodies(frozenset(), frozenset(), around, seeking)


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
