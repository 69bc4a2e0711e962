"""Which releases, patches, servers and combinations represent the others; ``scripts/test --all`` runs those too.

A test of each release or patch is also one of a few that differ in shape. The other tests have the mark ``sweep``:
they find what a change to one patch breaks on one release rather than what a change to patchkit breaks.
"""

from __future__ import annotations

import bisect
import re
import zlib
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from _pytest.mark import ParameterSet

    from patchkit.patchset.patch import Patch

settings.register_profile("weekly", settings.get_profile("ci"), max_examples=200)

_RELEASE = re.compile(r"0\.5\.(\d+)(?:\.post\d+)?")
# The last releases before one that has another shape: of those up to each, some are alike.
_LAST_OF_A_SHAPE = (10, 12, 14)
# Of the shape after these, those that many tests have a tree of.
_SHARED = ("0.5.18", "0.5.23")


def release_of(parameters: Iterable[object]) -> str:
    """Return the release that is among the parameters of a test, or in one of them; empty if none is."""
    for given in parameters:
        names = given if isinstance(given, tuple) else (given,)
        for name in names:
            if isinstance(name, str) and _RELEASE.fullmatch(name):
                return name
    return ""


def representative(releases: Iterable[str]) -> frozenset[str]:
    """Return the last release of each shape, or that of which there is a tree in any case."""
    ordered = sorted(releases, key=_numbers)
    # What is put there last stays.
    shared = [release for release in _SHARED if release in ordered]
    return frozenset({_shape(release): release for release in (*ordered, *shared)}.values())


def one_of(releases: Collection[str], module: str) -> frozenset[str]:
    """Return one of the releases for a module, so that modules share the shapes among them."""
    ordered = sorted(releases, key=_numbers)
    return frozenset({ordered[zlib.crc32(module.encode()) % len(ordered)]})


def _numbers(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]


def _shape(release: str) -> int:
    return bisect.bisect_left(_LAST_OF_A_SHAPE, _numbers(release)[2])


def is_every() -> bool:
    """Return whether this run is one of all tests: with the profile ``weekly``."""
    return settings().max_examples > settings.get_profile("ci").max_examples


def examples(count: int) -> settings:
    """Return settings for half of ``count`` examples, or four times as many with the profile ``weekly``.

    The first failure is reported without shrinking, which takes minutes where trees are asked.
    """
    scale = 4 if is_every() else 1
    return settings(max_examples=(count + 1) // 2 * scale, phases=[Phase.explicit, Phase.generate])


def swept(values: Iterable[object], represents: Callable[[object], bool]) -> list[ParameterSet]:
    """Return all ``values`` as parameters, of which those that do not represent the others are a sweep."""
    return [pytest.param(value, marks=() if represents(value) else pytest.mark.sweep) for value in values]


def crossed(*values: Iterable[object], one_in: int) -> list[ParameterSet]:
    """Return all combinations as parameters, of which one in ``one_in`` is no sweep; of each value some are not."""
    numbered = product(*(tuple(enumerate(value)) for value in values))
    return [
        pytest.param(
            *(value for _, value in combined),
            marks=() if sum(number for number, _ in combined) % one_in == 0 else pytest.mark.sweep,
        )
        for combined in numbered
    ]


def patch_by_patch(patches: Sequence[Patch]) -> list[ParameterSet]:
    """Return the ids of ``patches`` as parameters, of which the representatives alone are no sweep."""
    return swept([patch.id for patch in patches], representatives(patches).__contains__)


def representatives(patches: Sequence[Patch]) -> frozenset[str]:
    """Return the ids of patches of which at least one has each trait of any patch."""
    traits = {patch.id: frozenset(_traits(patch, patches)) for patch in patches}
    left = frozenset[str]().union(*traits.values())
    chosen: set[str] = set()

    def rank(patch: Patch) -> tuple[int, int]:
        # Of patches with as many traits the smallest: a large one makes every test of it long.
        return len(left & traits[patch.id]), -len(patch.edits)

    while left:
        best = max(patches, key=rank)
        chosen.add(best.id)
        left -= traits[best.id]
    return frozenset(chosen)


def _traits(patch: Patch, patches: Collection[Patch]) -> Iterator[str]:
    yield from (f"has an edit of the kind {type(edit.kind).__name__}" for edit in patch.edits)
    yield "is applied by default" if patch.default else "is opt-in"
    relations = {
        "requires a patch": bool(patch.requires),
        "is required": any(patch.id in other.requires for other in patches),
        "has parts": bool(patch.parts),
        "has shapes": bool(patch.shapes),
        "has an optional edit": any(edit.optional for edit in patch.edits),
        "imports": any(edit.imports for edit in patch.edits),
        "has edits in several files": len({edit.files for edit in patch.edits}) > 1,
    }
    yield from (relation for relation, holds in relations.items() if holds)
