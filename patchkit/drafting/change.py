"""Input and output of drafting: files before and after, facts about the change, and a patch folder.

``patchkit.drafting.patch.draft_patch`` computes one from the other, and writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class FileDiff:
    """A file, by its path in the package, before and after a change; None if it does not exist."""

    file: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True)
class Facts:
    """What a change itself provides for a patch's header, and for a commit.

    ``author`` and ``date`` are in git's forms (``Name <address>``, ``@SECONDS ZONE``), ``message`` is a commit's whole
    message. They are empty for a diff that is not in a mail.
    """

    id: str
    title: str = ""
    why: str = ""
    upstream: str = ""
    upstream_commit: str = ""
    author: str = ""
    date: str = ""
    message: str = ""


@dataclass(frozen=True)
class EditDraft:
    """One edit's table: kind, site, keys in order, and what has to be finished by hand."""

    kind: str
    at: str
    keys: Mapping[str, str | Sequence[str] | int]
    todo: tuple[str, ...] = ()
    others: tuple[EditDraft, ...] = ()
    """Alternatives, in case this form does not reproduce the layout."""

    @property
    def file(self) -> str:
        """The edited file."""
        return self.at.partition("::")[0]


@dataclass(frozen=True)
class Draft:
    """A patch folder, as the text of each file by name, and its edits by name.

    The patch loads, and its edits reproduce the change byte for byte, except for the comment that each edit adds.
    ``left_out`` lists what no edit covers, and why.
    """

    files: Mapping[str, str]
    edits: Mapping[str, EditDraft]
    left_out: tuple[str, ...] = ()
    made: Mapping[str, bytes | None] = field(default_factory=dict)
    """The result of the edits for each file, without their comments."""

    @property
    def hunks(self) -> int:
        """The number of edits that are hunks."""
        return sum(edit.kind == "hunk" for edit in self.edits.values())

    @property
    def is_whole(self) -> bool:
        """Whether the edits cover the whole change."""
        return not self.left_out
