"""What is drafted from, and what comes of it: files before and after, facts about the change, and a patch folder.

``patchkit.drafting.whole.drafted`` makes one of the other, and writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class FileDiff:
    """A file of the package, by its name below that, before and after; None where there is no such file."""

    file: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True)
class Facts:
    """What the header of a patch says, as far as the change itself says it."""

    id: str
    title: str = ""
    why: str = ""
    upstream: str = ""
    upstream_commit: str = ""


@dataclass(frozen=True)
class Drafted:
    """One edit's table: its kind, where, its keys in order, and what is left to do by hand."""

    kind: str
    at: str
    keys: Mapping[str, str | Sequence[str] | int]
    todo: tuple[str, ...] = ()
    others: tuple[Drafted, ...] = ()
    """Other ways to say the same, for where this one does not lay it out as it is."""

    @property
    def file(self) -> str:
        """The file that it edits."""
        return self.at.partition("::")[0]


@dataclass(frozen=True)
class Draft:
    """A patch folder, as the text of each of its files by name, and its edits by name.

    It loads, and its edits make of the files before what they are after, byte for byte but for the comment that each
    edit leaves; ``left`` says what of the change no edit makes, and why.
    """

    files: Mapping[str, str]
    edits: Mapping[str, Drafted]
    left: tuple[str, ...] = ()
    made: Mapping[str, bytes | None] = field(default_factory=dict)
    """What the edits make of each file, without their comments."""

    @property
    def hunks(self) -> int:
        """How many of the edits are hunks."""
        return sum(edit.kind == "hunk" for edit in self.edits.values())

    @property
    def is_whole(self) -> bool:
        """Whether the edits make all of the change."""
        return not self.left
