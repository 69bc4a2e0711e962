"""Abstract values and their environments: whether a value can be None, and whether for lack of the mirror."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    _Place = TypeVar("_Place")

    from patchkit.findings.finding import Step

NONE = 1
SOME = 2
ANY = NONE | SOME
_MAX_TRAIL = 16
_identities = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Refinement:
    """What a stored condition implies for other values: the None-ness of each when it is true and when false.

    A side that is None is unreachable.
    """

    when_true: dict[int, int] | None
    when_false: dict[int, int] | None


@dataclass(slots=True)
class Value:
    """What is known of one run-time value. Copy it instead of changing one that may be shared.

    ``nulls`` is a mask of NONE and SOME; ``tainted`` means that a None is for lack of the mirror. ``obj`` names the
    object for reads of its attributes, ``cls`` its class, ``modes`` the forward modes that it can be. Identity, trail
    and refinement are not compared, so that a fixed point depends on facts alone.
    """

    nulls: int = ANY
    tainted: bool = False
    cls: str | None = None
    obj: str | None = None
    modes: frozenset[str] | None = None
    truth: bool | None = None
    kind: str | None = None
    items: tuple[Value, ...] | None = None
    trail: tuple[Step, ...] = field(default=(), compare=False)
    identity: int = field(default_factory=_identities.__next__, compare=False)
    refinement: Refinement | None = field(default=None, compare=False)

    # A frozen class costs three times as much to construct, and an audit constructs a hundred thousand.

    @property
    def missing(self) -> bool:
        """Whether it can be None for lack of the mirror."""
        return self.tainted and bool(self.nulls & NONE)

    def narrowed(self, nulls: int) -> Value:
        """Return the same run-time value with fewer possibilities."""
        narrowed = self.copy()
        narrowed.nulls = self.nulls & nulls
        narrowed.tainted = self.tainted and bool(narrowed.nulls & NONE)
        return narrowed

    def via(self, step: Step) -> Value:
        """Return the value with one more step in its trail, if the trail matters."""
        if not self.missing or len(self.trail) >= _MAX_TRAIL or step in self.trail:
            return self
        longer = self.copy()
        longer.trail = (*self.trail, step)
        return longer

    def copy(self) -> Value:
        """Return a copy of the same run-time value; much faster than ``dataclasses.replace``."""
        return Value(
            self.nulls,
            self.tainted,
            self.cls,
            self.obj,
            self.modes,
            self.truth,
            self.kind,
            self.items,
            self.trail,
            self.identity,
            self.refinement,
        )


UNKNOWN = Value()
PRESENT = Value(SOME)
ABSENT = Value(NONE)


def fresh(value: Value) -> Value:
    """Return an equal value with a new identity, to which earlier checks do not apply."""
    same = value.copy()
    same.identity, same.refinement = next(_identities), None
    return same


def join(left: Value, right: Value) -> Value:
    """Return the least value that covers both."""
    if left is right:
        return left
    if left.identity == right.identity and left == right:
        return left
    lost = next((value for value in (left, right) if value.missing), left)
    items = None
    if left.items is not None and right.items is not None and len(left.items) == len(right.items):
        items = tuple(map(join, left.items, right.items))
    modes = left.modes | right.modes if left.modes is not None and right.modes is not None else None
    return Value(
        nulls=left.nulls | right.nulls,
        tainted=left.missing or right.missing,
        cls=left.cls if left.cls == right.cls else _agreed(left, right, left.cls, right.cls),
        obj=left.obj if left.obj == right.obj else _named(left, right),
        modes=modes,
        truth=left.truth if left.truth == right.truth else None,
        kind=left.kind if left.kind == right.kind else None,
        items=items,
        trail=lost.trail,
        identity=left.identity if left.identity == right.identity else next(_identities),
    )


def widen(values: dict[_Place, Value], more: Mapping[_Place, Value]) -> bool:
    """Join values into those that are known of the same places; return whether one of these changed."""
    changed = False
    for place, value in more.items():
        wider = join(values[place], value) if place in values else value
        if wider != values.get(place):
            values[place] = wider
            changed = True
    return changed


def _named(left: Value, right: Value) -> str | None:
    if left.identity == right.identity and None in (left.obj, right.obj):
        return (
            left.obj or right.obj
        )  # A value gets its name when an attribute is first read, here on one way only.
    return _agreed(left, right, left.obj, right.obj)


def _agreed(left: Value, right: Value, mine: str | None, theirs: str | None) -> str | None:
    if right.nulls == NONE:
        return mine
    return theirs if left.nulls == NONE else None


Cell = tuple[str, str, str]
"""A place that holds a value: ``("local", name, "")`` or ``("field", object, attribute)``."""


class Environment:
    """The values of all locals and attributes at one point of a function."""

    __slots__ = ("cells", "mode_checked")

    def __init__(self, cells: dict[Cell, Value] | None = None, mode_checked: bool = False) -> None:
        self.cells = {} if cells is None else cells
        self.mode_checked = mode_checked

    def copy(self) -> Environment:
        """Return an independent copy."""
        return Environment(dict(self.cells), self.mode_checked)

    def narrow(self, value: Value, nulls: int) -> bool:
        """Restrict a value in all cells that hold it; return False if that makes the point unreachable."""
        remaining = value.nulls & nulls
        if not remaining:
            return False
        if remaining != value.nulls:
            for cell in [cell for cell, held in self.cells.items() if held.identity == value.identity]:
                self.cells[cell] = self.cells[cell].narrowed(nulls)
        return True

    def restrict_modes(self, value: Value, modes: frozenset[str]) -> None:
        """Restrict a forward mode in all cells that hold it."""
        for cell, held in self.cells.items():
            if held.identity == value.identity:
                self.cells[cell] = restricted = held.copy()
                restricted.modes = modes

    def apply(self, refinement: dict[int, int] | None) -> bool:
        """Restrict values as a stored condition implies; return False if that makes the point unreachable."""
        if refinement is None:
            return False
        for cell, value in self.cells.items():
            nulls = refinement.get(value.identity)
            if nulls is not None:
                narrowed = value.narrowed(nulls)
                if not narrowed.nulls:
                    return False
                self.cells[cell] = narrowed
        return True
