"""A patch as the rest of the package takes it: what, why, how risky, and which edits at which sites."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.codemods.kind import Kind


class Address(msgspec.Struct, frozen=True):
    """The dotted name of a class, function or method (none: the file), and the files that may have it."""

    scope: str
    files: tuple[str, ...]


class _Addressed(msgspec.Struct, frozen=True, kw_only=True):
    addresses: tuple[Address, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The places where the file may be."""
        return tuple(dict.fromkeys(file for address in self.addresses for file in address.files))

    @property
    def scopes(self) -> tuple[str, ...]:
        """The dotted names that the site may have."""
        return tuple(address.scope for address in self.addresses)


class Fact(_Addressed, frozen=True, kw_only=True):
    """Something true of a tree: a file is there, defines a dotted name, or has code like a pattern."""

    has: str = ""
    lacks: str = ""


class Change(Protocol):
    """What an edit does at its site, which may be converted when it is first asked for."""

    @property
    def kind(self) -> Kind:
        """The kind of edit, with its keys."""
        ...

    @property
    def imports(self) -> tuple[str, ...]:
        """The imports that the new code needs."""
        ...


class Converted(NamedTuple):
    """A change that is converted."""

    kind: Kind
    imports: tuple[str, ...]


class Edit(_Addressed, frozen=True, kw_only=True):
    """One semantic change at one site; of several addresses the first that the tree has counts."""

    name: str
    why: str
    change: Change
    shapes: tuple[str, ...] = ()
    optional: str = ""
    beyond_upstream: bool = False

    @property
    def kind(self) -> Kind:
        """The kind of edit, with its keys; UsageError if the patch file is malformed there."""
        return self.change.kind

    @property
    def imports(self) -> tuple[str, ...]:
        """The imports that the new code needs; UsageError as for ``kind``."""
        return self.change.imports


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """One upgrade: what, why, upstream link, risk, what it needs, its edits, and how to verify it.

    It can be named together with the others of its ``group``.
    A shape is a set of facts that hold together; a tree with none of ``any_shape_of`` is not understood.
    ``applies_when`` are facts without which the patch does not apply to a tree. ``upstream_when`` are facts
    that hold where upstream's own change is in the tree; sites that upstream has since moved on from are then
    no conflict. ``no_switch`` says why a server cannot turn the patch off by ``PATCHKIT_DISABLE``; ``built_in`` that
    nobody's folder made or extended it, so that it is for the releases that patchkit supports. ``left_out`` says why
    it is none of those that are on by ``default``, where that is a fork's configuration.
    """

    id: str
    title: str
    why: str
    risk: str
    verify: str
    edits: tuple[Edit, ...]
    group: str = ""
    upstream: str = ""
    upstream_commit: str = ""
    no_switch: str = ""
    left_out: str = ""
    built_in: bool = False
    default: bool = True
    requires: tuple[str, ...] = ()
    hardens: tuple[str, ...] = ()
    shapes: dict[str, tuple[Fact, ...]] = {}
    any_shape_of: tuple[str, ...] = ()
    applies_when: tuple[Fact, ...] = ()
    upstream_when: tuple[Fact, ...] = ()

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Every fact that the patch asks of a tree."""
        shapes = (fact for shape in self.shapes.values() for fact in shape)
        return (*self.applies_when, *self.upstream_when, *shapes)


def addresses(places: Iterable[str]) -> tuple[Address, ...]:
    """Return the addresses that ``file::name`` texts say; ValueError where one says none."""
    found: dict[str, list[str]] = {}
    for place in places:
        file, _, scope = place.partition("::")
        if "::" in place and not all(part.isidentifier() for part in scope.split(".")):
            raise ValueError(f"key `at`: {place!r} is not `file::Class.method`")
        found.setdefault(scope, []).append(file)
    return tuple(Address(scope, tuple(files)) for scope, files in found.items())
