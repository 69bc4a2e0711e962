"""What a plan says: the state of each edit and each patch, and each changed file's bytes."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchkit.plan.marks import MARK, SIGN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.patchset.patch import Patch
    from patchkit.tree.tree import Tree


class State(str, enum.Enum):
    """State of an edit or of a patch, spelled as the command line prints it."""

    APPLIED = "applied"
    UPSTREAM = "upstream"
    PENDING = "pending"
    PARTIAL = "partial"
    CONFLICT = "conflict"
    NOT_APPLICABLE = "not-applicable"


@dataclass(frozen=True)
class EditStatus:
    """One edit on one tree: where its site is and how far along it is."""

    name: str
    file: str
    site: str
    state: State
    reason: str = ""


@dataclass(frozen=True)
class PatchStatus:
    """One patch on one tree."""

    patch: Patch
    state: State
    edits: tuple[EditStatus, ...]
    reason: str = ""


@dataclass(frozen=True)
class Standing:
    """How a tree stands: each patch's status, and the ids of patches whose comments it has and that are not at hand."""

    patches: tuple[PatchStatus, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class FileChange:
    """New bytes for one file of the tree; ``file`` is relative to the package folder (``srt/...``).

    None stands for no file: before, where the patches make it; after, where they take it away.
    """

    file: str
    before: bytes | None
    after: bytes | None
    patches: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What applying ``patches`` to ``tree`` would do."""

    tree: Tree
    patches: tuple[PatchStatus, ...]
    changes: tuple[FileChange, ...]
    by_hand: frozenset[tuple[str, str]] = frozenset()
    """The edits, as patch id and name, that it makes as a person did elsewhere."""
    left: Mapping[str, str] = field(default_factory=dict)
    """The patches that it leaves out because they do not fit, and why."""

    @property
    def made(self) -> tuple[PatchStatus, ...]:
        """The patches that it changes something for, one in conflict too if some of its edits are made."""
        changed = {name for change in self.changes for name in change.patches}
        pending = {State.PENDING, State.PARTIAL}
        return tuple(
            s
            for s in self.patches
            if s.patch.id in changed or (s.state in pending and s.patch.id not in self.left)
        )


@dataclass(frozen=True)
class Stage:
    """What one patch of a plan changes, in files as the patches before it leave them."""

    patch: Patch
    changes: tuple[FileChange, ...]


def marker(patch: Patch) -> str:
    """Return what every comment of a patch starts with; it tells its edits from upstream's own."""
    return f"{MARK}{patch.id}:"


ACCEPTED = "accepted by hand"
"""The reason of an edit that is in place because a person says so."""
BY_HAND = "by hand"
"""The reason of an edit that is in place, and that a person made."""


_NOTED = re.compile(
    rb"^\s*%s([\w.-]+): (?:%s|%s): ([\w.-]+)\s*$" % (SIGN.encode(), ACCEPTED.encode(), BY_HAND.encode()),
    re.MULTILINE,
)


def note_of(patch: str, edit: str, how: str) -> str:
    """Return the comment that says in the code, for everybody who has it, how a person made an edit."""
    return f"{SIGN}{patch}: {how}: {edit}"


def noted_in(source: bytes) -> tuple[tuple[str, str], ...]:
    """Return the edits, as patch id and name, of which a file has such a comment."""
    return tuple((found[1].decode(), found[2].decode()) for found in _NOTED.finditer(source))


def is_noted(source: bytes, patch: str, edit: str, how: str) -> bool:
    """Tell whether a file has that comment."""
    note = note_of(patch, edit, how).encode()
    return note in source and any(line.strip() == note for line in source.splitlines())
