"""A plan says, for patches and a tree, each edit's state and each file's new bytes; nothing is written."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchkit.patchset import Patch
    from patchkit.tree import Tree


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
class FileChange:
    """New bytes for one file of the tree; ``file`` is relative to the package folder (``srt/...``)."""

    file: str
    before: bytes
    after: bytes
    patches: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What applying ``patches`` to ``tree`` would do."""

    tree: Tree
    patches: tuple[PatchStatus, ...]
    changes: tuple[FileChange, ...]


def inspect(tree: Tree, patches: tuple[Patch, ...]) -> tuple[PatchStatus, ...]:
    """Return each patch's status on ``tree``."""
    raise NotImplementedError


def make_plan(tree: Tree, patches: tuple[Patch, ...]) -> Plan:
    """Return what applying ``patches``, in this order, to ``tree`` would do; conflicts are states, not errors."""
    raise NotImplementedError
