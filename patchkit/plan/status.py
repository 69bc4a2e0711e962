"""The types of a plan: the state of each edit and each patch, and each changed file's bytes."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from patchkit.plan.comments import COMMENT_PREFIX, PREFIX
from patchkit.tree.modes import PLAIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.patchset.patch import Part, Patch
    from patchkit.tree.tree import Tree


class State(str, enum.Enum):
    """State of an edit or of a patch, spelled as the command line prints it."""

    APPLIED = "applied"
    EDITED = "edited"
    UPSTREAM = "upstream"
    UNKNOWN = "unknown"
    PENDING = "pending"
    PARTIAL = "partial"
    CONFLICT = "conflict"
    NOT_APPLICABLE = "not-applicable"


IN_PLACE = frozenset({State.APPLIED, State.UPSTREAM, State.UNKNOWN})
"""The states of what a tree has: by patchkit, upstream's own, or in place and nothing tells whose it is.

An edited patch is not among them: what a person changed in it may be all of an edit.
"""


@dataclass(frozen=True)
class EditStatus:
    """The status of one edit on one tree: its location and state.

    ``calls_runtime`` is whether its code in the tree does, which only patchkit's does. ``difference`` is what a person
    changed in the code that patches wrote in its file, as a unified diff.
    """

    name: str
    file: str
    site: str
    state: State
    reason: str = ""
    calls_runtime: bool = False
    difference: str = ""

    @property
    def placed_reason(self) -> str:
        """The reason with the edit's place and name, as a patch gives it for its own state."""
        return f"{self.file}: {self.site or 'module'}: {self.name}: {self.reason}"


OPT_IN = "opt-in"
LEFT_OUT = "left-out"


STYLES: dict[str, str] = {
    State.APPLIED: "green",
    State.UPSTREAM: "green",
    State.UNKNOWN: "green",
    State.PENDING: "yellow",
    State.PARTIAL: "yellow",
    State.EDITED: "red",
    State.CONFLICT: "red",
    State.NOT_APPLICABLE: "dim",
    OPT_IN: "dim",
    LEFT_OUT: "dim",
}
"""Every label of a state, in the order in which they are listed, with its style on a terminal."""


def label_of(state: str, *, opt_in: bool, left_out: str) -> str:
    """Return what a patch's state is called: itself, or why apply makes the patch only if it is named.

    ``left_out`` is the reason why the fork's configuration leaves the patch out.
    """
    if left_out and state not in IN_PLACE | {State.EDITED}:
        return LEFT_OUT
    return OPT_IN if opt_in and state == State.PENDING else str.__str__(state)


@dataclass(frozen=True)
class PatchStatus:
    """The status of one patch on one tree."""

    patch: Patch
    state: State
    edits: tuple[EditStatus, ...]
    reason: str = ""

    def edits_of(self, part: Part) -> tuple[EditStatus, ...]:
        """Return the edits of a part."""
        names = {edit.name for edit in self.patch.edits_of(part.name)}
        return tuple(edit for edit in self.edits if edit.name in names)

    def state_of(self, part: Part) -> State:
        """Return the state of a part; that of the patch if it has no others."""
        if not self.patch.parts:
            return self.state
        states = {edit.state for edit in self.edits_of(part)} - {State.NOT_APPLICABLE}
        if State.EDITED in states and State.CONFLICT not in states:
            return State.EDITED
        if State.CONFLICT in states or len(states) < 2:  # none, or that of all
            return State.CONFLICT if State.CONFLICT in states else next(iter(states), State.NOT_APPLICABLE)
        order = (State.APPLIED, State.UPSTREAM, State.UNKNOWN)
        return State.PARTIAL if State.PENDING in states else next(state for state in order if state in states)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parts that patchkit made or would make, if any, or else of what the patch itself is."""
        ours = {State.APPLIED, State.EDITED, State.PENDING, State.PARTIAL}
        parts = [part for part in self.patch.all_parts if self.state_of(part) in ours]
        return tuple(name_of(self.patch, part) for part in parts) or (self.patch.id,)

    @property
    def made(self) -> tuple[Part, ...]:
        """The parts of which an edit is made by applying the patch."""
        pending = {edit.name for edit in self.edits if edit.state is State.PENDING}
        return tuple(
            part
            for part in self.patch.all_parts
            if not pending.isdisjoint(edit.name for edit in self.edits_of(part))
        )

    @property
    def label(self) -> str:
        """What the state is called in every command."""
        return label_of(self.state, opt_in=self.patch.opt_in, left_out=self.patch.left_out)


def missing_reason(edits: Sequence[EditStatus]) -> str:
    """Return how many of a patch's edits are missing, and whether the others are upstream's."""
    count = sum(edit.state is State.PENDING for edit in edits)
    present = {edit.state for edit in edits} & IN_PLACE
    others = "; the others are upstream's" if present == {State.UPSTREAM} else ""
    return f"{count} of {len(edits)} edits are missing{others}"


@dataclass(frozen=True)
class TreeStatus:
    """Each patch's status on a tree, and the ids of unknown patches that the tree's comments or its record name.

    ``unfinished`` are the edits, as patch id and edit name, of which the tree has conflict markers, or code in their
    place that is not recorded. ``ports`` are the ported changes in the tree, each with its files of which the tree has
    nothing.
    """

    patches: tuple[PatchStatus, ...]
    unknown: tuple[str, ...]
    unfinished: tuple[tuple[str, str], ...] = ()
    ports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class FileChange:
    """New bytes for one file of the tree; ``file`` is relative to the package folder (``srt/...``).

    ``before`` is None if the patches create the file, ``after`` if they delete it. ``modes`` are git's before and after
    it, which the file gets only where they differ; the bytes of a link are its target.
    """

    file: str
    before: bytes | None
    after: bytes | None
    patches: tuple[str, ...] = ()
    modes: tuple[str, str] = (PLAIN, PLAIN)


@dataclass(frozen=True)
class Plan:
    """What applying ``patches`` to ``tree`` would do."""

    tree: Tree
    patches: tuple[PatchStatus, ...]
    changes: tuple[FileChange, ...]
    manual_edits: frozenset[tuple[str, str]] = frozenset()
    """The edits, as patch id and edit name, that a person made or resolved."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The patches that are left out because they do not fit, with the reasons."""

    @property
    def changed_patches(self) -> tuple[PatchStatus, ...]:
        """The patches with changes in the plan, including conflicting ones of which some edits are made."""
        changed = {name for change in self.changes for name in change.patches}
        pending = {State.PENDING, State.PARTIAL}
        return tuple(
            s
            for s in self.patches
            if s.patch.id in changed or (s.state in pending and s.patch.id not in self.left_out)
        )


class Stage(NamedTuple):
    """The changes of one patch of a plan, relative to the files after the patches before it."""

    status: PatchStatus
    changes: tuple[FileChange, ...]


def comment_start(patch: Patch) -> str:
    """Return the start of a patch's comments, which distinguish its edits from upstream's."""
    return f"{PREFIX}{patch.id}:"


def name_of(patch: Patch, part: Part) -> str:
    """Return the name of a part for messages and configurations, such as ``26128/guards``."""
    return f"{patch.id}/{part.name}" if part.name else patch.id


ACCEPTED = "accepted by hand"
"""The reason of an edit that a person declared to be in place."""
BY_HAND = "by hand"
"""The reason of an edit that a person made."""


_NOTED = re.compile(
    rb"^\s*%s([\w.-]+): (?:%s|%s): ([\w.-]+)\s*$"
    % (COMMENT_PREFIX.encode(), ACCEPTED.encode(), BY_HAND.encode()),
    re.MULTILINE,
)


def note_of(patch: str, edit: str, how: str) -> str:
    """Return the comment that records in the code that an edit was made or accepted by hand."""
    return f"{COMMENT_PREFIX}{patch}: {how}: {edit}"


def noted_in(source: bytes) -> tuple[tuple[str, str], ...]:
    """Return the edits, as patch id and edit name, for which a file has such a comment."""
    if BY_HAND.encode() not in source:
        return ()  # The expression tries each line.
    return tuple((match[1].decode(), match[2].decode()) for match in _NOTED.finditer(source))


def is_noted(source: bytes, patch: str, edit: str, how: str) -> bool:
    """Return whether a file has the comment of ``note_of``."""
    note = note_of(patch, edit, how).encode()
    return note in source and any(line.strip() == note for line in source.splitlines())
