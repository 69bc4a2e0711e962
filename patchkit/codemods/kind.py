"""A kind of edit is a struct: the keys of its table in a patch file, what it does, and examples that show it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

import msgspec

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod

Places = str | Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


def several(text: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts of a key that holds one or a list of them; an empty one is none."""
    return ((text,) if text else ()) if isinstance(text, str) else text


class Example(NamedTuple):
    """A program and what an edit makes of it; each is a test of its kind and part of the kind's page.

    ``edit`` are the keys of the kind as a patch file says them, ``scope`` the dotted name of the place in
    ``before``. Without ``after`` the program stays as it is: with a ``refusal`` because the edit cannot be
    made there, or not at all where there is no program, and otherwise because it is in place already.
    """

    shows: str
    edit: str
    before: str = ""
    after: str = ""
    scope: str = ""
    refusal: str = ""


class Site(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of several places that get the same edit; what it leaves out is the edit's.

    ``names`` says of some of the edit's placeholders which name they stand for there.
    """

    at: Places
    why: str = ""
    shape: str | tuple[str, ...] = ()
    optional: str = ""
    beyond_upstream: bool = False
    names: dict[str, str] = {}


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that every edit has, of whichever kind.

    ``at`` says where: ``file::Class.method`` below the package folder, the file alone for its top level, a list
    where the file or the name has changed over time. ``sites`` are several places that get the same edit.
    ``shape`` names the shape, or several, of trees that have this site. ``optional`` is the reason why a tree
    may lack the site. ``beyond_upstream`` marks what upstream's change does not have; it is left out where that
    is in the tree. ``imports`` are imports that the new code needs, beside the patch's.
    """

    why: str
    at: Places | None = None
    sites: tuple[str | Site, ...] = ()
    shape: str | tuple[str, ...] = ()
    optional: str = ""
    beyond_upstream: bool = False
    imports: tuple[str, ...] = ()


class Kind(Keys, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """The base of every kind, which adds keys of its own to those that every edit has."""

    VALID: ClassVar[tuple[Example, ...]] = ()
    """Programs that are changed."""
    NO_OP: ClassVar[tuple[Example, ...]] = ()
    """Programs that have the change already."""
    INVALID: ClassVar[tuple[Example, ...]] = ()
    """Programs that are refused, and edits that are."""

    looks_inside: ClassVar[bool] = True
    """Whether it looks at statements in the scope, not only at what the scope defines."""
    is_for_modules: ClassVar[bool] = False
    """Whether its place is a whole file."""
    is_of_headers: ClassVar[bool] = False
    """Whether it changes the header of a function or class, not what is in it."""
    is_for_text: ClassVar[bool] = False
    """Whether its file need not be Python."""
    writes: ClassVar[tuple[str, ...]] = ("code",)
    """The keys that hold code which it writes."""

    def codemod(self) -> Codemod:
        """Return the edit as something that can examine a scope; ValueError names the key that is wrong."""
        raise NotImplementedError

    @property
    def makes_file(self) -> bool:
        """Whether the file is made where the tree has none."""
        return False

    @property
    def verbatim(self) -> frozenset[str]:
        """Lines, without what they are indented by, that stay as they are laid out."""
        return frozenset()

    @property
    def written(self) -> tuple[str, ...]:
        """Every piece of code that the edit may write."""
        return tuple(getattr(self, key) for key in self.writes)

    @property
    def ways(self) -> tuple[tuple[str, str], ...]:
        """Each way in which a site may look, none where its place says it, with the code that belongs there."""
        find = getattr(self, "find", "")
        finds = (find,) if isinstance(find, str) else find
        return tuple((way, "\n".join(self.written)) for way in finds)


@functools.cache
def codemod_of(kind: Kind) -> Codemod:
    """Return the codemod of an edit, built once a process."""
    return kind.codemod()
