"""Collect the functions and files that patches look into, so that nothing else has to be parsed."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchkit.codemods.language.pattern import Pattern
from patchkit.patchset.patch import Fact
from patchkit.tree.bodies import NeededBodies

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from patchkit.patchset.patch import Edit, Patch

_DEFINED = re.compile(r"^[ \t]*def (\w+)", re.MULTILINE)


def needed_bodies(patches: Iterable[Patch]) -> NeededBodies:
    """Return the functions and files that patches' edits and facts look into, in any file and in those they name."""
    anywhere, own = _Needs(), defaultdict[str, _Needs](_Needs)
    for patch in patches:
        looking: list[Fact | Edit] = [*patch.facts]
        looking += [edit for edit in patch.edits if edit.kind.looks_inside]
        for place in looking:
            for needs in (anywhere, *(own[file] for file in place.files)):
                needs.look_into(place)
        for edit in patch.edits:
            defined = {name for code in edit.kind.written for name in _DEFINED.findall(code)}
            for needs in (anywhere, *(own[file] for file in edit.files)):
                needs.names |= defined
    return anywhere.bodies({file: needs.bodies({}) for file, needs in own.items()})


@dataclass
class _Needs:
    """What is looked into, collected place by place."""

    names: set[str] = field(default_factory=set[str])
    files: set[str] = field(default_factory=set[str])
    around: set[str] = field(default_factory=set[str])
    seeking: set[tuple[str, frozenset[str]]] = field(default_factory=set[tuple[str, frozenset[str]]])

    def look_into(self, place: Fact | Edit) -> None:
        last = {scope.rsplit(".", 1)[-1] for scope in place.scopes}
        words = _words(place)
        if words is None:
            self.names |= last
        else:
            self.seeking |= {(name, word) for name in last for word in words}
        self.around |= {name for scope in place.scopes for name in scope.split(".")[:-1]}
        self.files |= set(place.files) if "" in place.scopes else set()

    def bodies(self, own: Mapping[str, NeededBodies]) -> NeededBodies:
        names, files, around = frozenset(self.names - {""}), frozenset(self.files), frozenset(self.around)
        return NeededBodies(names, files, around, frozenset(self.seeking), own)


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
