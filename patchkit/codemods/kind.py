"""The base of every kind of edit: the keys of its table in a patch file, what it does in a scope, and examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

import msgspec

if TYPE_CHECKING:
    from patchkit.codemods.examination import Examination
    from patchkit.codemods.language.scope import Scope

Places = str | Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


def several(text: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of a key that is one text or a list; an empty text is no value."""
    return ((text,) if text else ()) if isinstance(text, str) else text


class Example(NamedTuple):
    """A program before and after an edit; each example is a test and part of the kind's page.

    ``edit`` has the kind's keys as in a patch file, ``scope`` is the dotted name of the place in ``before``.
    Without ``after`` the program does not change: either the edit is in place already, or ``refusal`` is the reason
    why it cannot be made there. Without a program, ``refusal`` is the error in the edit itself.
    """

    shows: str
    edit: str
    before: str = ""
    after: str = ""
    scope: str = ""
    refusal: str = ""


class Site(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of several places for the same edit; keys that it omits are taken from the edit.

    ``names`` gives the names that some of the edit's placeholders stand for there.
    """

    at: Places
    why: str = ""
    shape: str | tuple[str, ...] = ()
    optional: str = ""
    beyond_upstream: bool = False
    names: dict[str, str] = {}


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of every edit, of any kind.

    ``at`` is the place: ``file::Class.method`` below the package folder, the file alone for module level, or a list
    of places for a file or name that changed over time. ``sites`` lists several places for the same edit. ``shape``
    names the shape, or shapes, of trees with this site. ``optional`` is the reason why a tree may lack the site.
    ``beyond_upstream`` marks an edit that upstream's change lacks; it is skipped if the tree has upstream's change.
    ``part`` is the part of the patch that the edit belongs to.
    ``imports`` lists imports that the new code needs besides the patch's.
    """

    why: str
    part: str = ""
    at: Places | None = None
    sites: tuple[str | Site, ...] = ()
    shape: str | tuple[str, ...] = ()
    optional: str = ""
    beyond_upstream: bool = False
    imports: tuple[str, ...] = ()


class Kind(Keys, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """The base of every kind, which adds its own keys to those of every edit.

    It contains nothing specific to the edited project.
    """

    VALID: ClassVar[tuple[Example, ...]] = ()
    """Programs that the edit changes."""
    NO_OP: ClassVar[tuple[Example, ...]] = ()
    """Programs that have the change already."""
    INVALID: ClassVar[tuple[Example, ...]] = ()
    """Programs and edits that are rejected."""

    looks_inside: ClassVar[bool] = True
    """Whether it examines statements in the scope, not only the scope's definitions."""
    is_for_modules: ClassVar[bool] = False
    """Whether its site is a file."""
    is_of_headers: ClassVar[bool] = False
    """Whether it changes the header of a function or class, not its body."""
    is_for_text: ClassVar[bool] = False
    """Whether it accepts files that are not Python."""
    makes_file: ClassVar[bool] = False
    """Whether a file that the tree lacks is no conflict."""
    writes: ClassVar[tuple[str, ...]] = ("code",)
    """The keys with the code that it writes."""

    def check(self) -> None:
        """Raise ValueError that names the malformed key."""

    def examine(self, scope: Scope, note: str) -> Examination:
        """Return the state of this edit in ``scope``; ``note`` is the comment of a new edit."""
        raise NotImplementedError

    @property
    def written(self) -> tuple[str, ...]:
        """All pieces of code that the edit may write."""
        return tuple(getattr(self, key) for key in self.writes)

    @property
    def forms(self) -> tuple[tuple[str, str], ...]:
        """Each pattern of a site with the code that belongs there; none if the place alone identifies the site."""
        find = getattr(self, "find", "")
        finds = (find,) if isinstance(find, str) else find
        return tuple((way, "\n".join(self.written)) for way in finds)
