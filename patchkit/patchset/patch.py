"""The types of a loaded patch, its edits, and the facts that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from patchkit.codemods.kind import Kind


TODO = "todo: "
"""How a text of a draft begins that a person has to write."""


class Address(msgspec.Struct, frozen=True):
    """The dotted name of a class, function or method (empty for the file itself), and the files that may define it."""

    scope: str
    files: tuple[str, ...]


class _Addressed(msgspec.Struct, frozen=True, kw_only=True):
    addresses: tuple[Address, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The paths that the file may have."""
        return tuple(dict.fromkeys(file for address in self.addresses for file in address.files))

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """The files that the site may be in, each with the dotted name there (empty for the file itself)."""
        return tuple((file, address.scope) for address in self.addresses for file in address.files)

    @property
    def scopes(self) -> tuple[str, ...]:
        """The dotted names that the site may have."""
        return tuple(address.scope for address in self.addresses)


class Fact(_Addressed, frozen=True, kw_only=True):
    """A condition on a tree: a file exists, defines a dotted name, or has code that matches a pattern."""

    has: str = ""
    lacks: str = ""
    why: str = ""


class ConvertedChange(NamedTuple):
    """What an edit does at its site: its kind, with its keys, and the imports that the new code needs."""

    kind: Kind
    imports: tuple[str, ...]


class LateChange(NamedTuple):
    """The same of one of a patch's edits, all of which ``converted`` converts on first use."""

    converted: Callable[[], Sequence[Edit]]
    number: int

    @property
    def kind(self) -> Kind:
        """The kind of edit, with its keys."""
        return self.converted()[self.number].kind

    @property
    def imports(self) -> tuple[str, ...]:
        """The imports that the new code needs."""
        return self.converted()[self.number].imports


SiteChange: TypeAlias = ConvertedChange | LateChange


class Edit(_Addressed, frozen=True, kw_only=True):
    """One semantic change at one site, which is at the first of ``addresses`` that the tree has."""

    name: str
    why: str
    change: SiteChange
    part: str = ""
    shapes: tuple[str, ...] = ()
    optional: str = ""
    beyond_upstream: bool = False

    @property
    def kind(self) -> Kind:
        """The kind of edit, with its keys. Raises UsageError if the edit is malformed."""
        return self.change.kind

    @property
    def imports(self) -> tuple[str, ...]:
        """The imports that the new code needs. Raises UsageError if the edit is malformed."""
        return self.change.imports


class Affects(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which servers a fix is for, and what goes wrong there without it.

    ``when`` is a condition on the server's options, empty if every server is affected. ``concerns`` names the requests
    or models that are affected, where no option determines it. ``fixed_in`` is upstream's first release with the fix.
    """

    symptom: Annotated[str, msgspec.Meta(min_length=1)]
    when: str = ""
    concerns: str = ""
    fixed_in: Annotated[str, msgspec.Meta(pattern=r"^([0-9]+([.][0-9]+)+([.]post[0-9]+)?)?$")] = ""


class DiffEdit(msgspec.Struct, frozen=True):
    """What a diff changes in one class or function of a file (empty for the rest of the file), as lines."""

    file: str
    site: str
    removed: str
    added: str


class BasedDiff(msgspec.Struct, frozen=True, kw_only=True):
    """A change of whole files, by their paths in the package; None for a file that does not exist.

    ``edits`` are its edits by name. ``others`` is code, as ``file`` or ``file::Class.method``, that the diff's tree has
    as well, and which is therefore not code that moved.
    """

    name: str
    files: dict[str, tuple[bytes | None, bytes | None]]
    edits: dict[str, DiffEdit] = {}
    others: tuple[str, ...] = ()


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Edits with conditions and words of their own: what a patch stands for, what makes it safe, or what completes it.

    ``name`` is empty for the first of these. ``shapes`` are named sets of facts; a tree with none of ``any_shape_of``
    is a conflict. A part is not applicable to a tree unless all ``applies_when`` facts hold. ``upstream_when`` facts
    hold in trees with upstream's own change, in which a missing site is not a conflict. ``no_switch`` is the reason why
    ``PATCHKIT_DISABLE`` cannot turn it off. ``formerly`` is the id of the patch that it was. ``left_out`` is the reason
    why a fork's configuration turns it off.
    """

    name: str = ""
    title: str
    why: str
    risk: str = ""
    upstream: str = ""
    upstream_commit: str = ""
    no_switch: str = ""
    shapes: dict[str, tuple[Fact, ...]] = {}
    any_shape_of: tuple[str, ...] = ()
    applies_when: tuple[Fact, ...] = ()
    upstream_when: tuple[Fact, ...] = ()
    formerly: str = ""
    left_out: str = ""


class Patch(Part, frozen=True, kw_only=True):
    """One upgrade: what it changes and why, its risk, requirements, edits, upstream link, and how to verify it.

    It is its own first part; ``parts`` are the others. Its ``applies_when`` and ``left_out`` are for all of them.
    ``diffs`` make the patch in place of edits that find their sites: one, or one for each of several trees; its edits
    then only name what they change. ``group`` names a group of patches. ``affects`` is None for a patch that fixes
    nothing. ``built_in`` patches are neither defined nor extended by another folder, and fit supported releases only.
    ``form`` is a digest of its text, and ``remove_when`` says when it will no longer be needed.
    """

    id: str
    verify: str
    edits: tuple[Edit, ...]
    remove_when: str = ""
    diffs: tuple[BasedDiff, ...] = ()
    group: str = ""
    affects: Affects | None = None
    built_in: bool = False
    default: bool = True
    requires: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    form: str = ""

    @property
    def has_pull_request(self) -> bool:
        """Whether the change is an upstream pull request's, which the patch is named after, and not only related."""
        return self.upstream.endswith(f"/pull/{self.id}")

    @property
    def upstream_subject(self) -> str:
        """The subject of upstream's commit: the title with the number of the pull request; empty without one."""
        _, is_pull, number = self.upstream.partition("/pull/")
        return f"{self.title} (#{number.rstrip('/')})" if is_pull else ""

    @property
    def opt_in(self) -> bool:
        """Whether apply makes the patch only if it is named, for a reason of its own."""
        return not (self.default or self.left_out)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Every fact that the patch tests on a tree."""
        shapes = (fact for part in self.all_parts for shape in part.shapes.values() for fact in shape)
        return (
            *(fact for part in self.all_parts for fact in (*part.applies_when, *part.upstream_when)),
            *shapes,
        )

    @property
    def all_parts(self) -> tuple[Part, ...]:
        """The parts in order of application."""
        return (self, *self.parts)

    def edits_of(self, part: str) -> tuple[Edit, ...]:
        """Return the edits of a part, by its name."""
        return tuple(edit for edit in self.edits if edit.part == part)

    def part_of(self, edit: str) -> Part:
        """Return the part of an edit, by its name."""
        name = next((candidate.part for candidate in self.edits if candidate.name == edit), "")
        return next(part for part in self.all_parts if part.name == name)


def parts_by_comment(patches: Iterable[Patch]) -> dict[str, str]:
    """Return the name of the part, such as ``26128/guards``, by the words of each comment, such as ``26128: why``."""
    return {
        f"{patch.id}: {edit.why}": f"{patch.id}/{edit.part}" if edit.part else patch.id
        for patch in patches
        for edit in patch.edits
    }


def former_ids(patches: Iterable[Patch]) -> dict[str, str]:
    """Return what each patch that became a part of another one is called now, such as ``26128/guards``."""
    return {
        part.formerly: f"{patch.id}/{part.name}" for patch in patches for part in patch.parts if part.formerly
    }


def addresses(places: Iterable[str]) -> tuple[Address, ...]:
    """Return the addresses of ``file::name`` texts. Raise ValueError for a malformed one."""
    by_place: dict[str, list[str]] = {}
    for place in places:
        file, _, scope = place.partition("::")
        if "::" in place and not all(part.isidentifier() for part in scope.split(".")):
            raise ValueError(f"key `at`: {place!r} is not `file::Class.method`")
        by_place.setdefault(scope, []).append(file)
    return tuple(Address(scope, tuple(files)) for scope, files in by_place.items())
