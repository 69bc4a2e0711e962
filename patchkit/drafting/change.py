"""Input and output of drafting: facts about a change, and a patch folder.

``patchkit.drafting.patch.draft_patch`` makes one of the other, and writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchkit.plan.status import FileChange
from patchkit.tree.modes import NO_FILE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.patchset.unified import Hunk


@dataclass(frozen=True)
class GivenFile(FileChange):
    """A file as a change was given. The path of one outside the package starts with ``../``.

    If the tree of the change does not have that, ``hunks`` are what is known of the change.
    """

    hunks: tuple[Hunk, ...] = field(default=(), kw_only=True)

    @property
    def kinds(self) -> tuple[str, str]:
        """git's modes before and after it, ``NO_FILE`` where there is no file."""
        before, after = self.modes
        return NO_FILE if self.before is None else before, NO_FILE if self.after is None else after


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
class Draft:
    """A patch folder, as the content of each file by its name in it, and the names of its edits.

    ``left_out`` lists what the patch does not change, and why.
    """

    files: Mapping[str, bytes]
    edits: tuple[str, ...]
    left_out: tuple[str, ...] = ()
