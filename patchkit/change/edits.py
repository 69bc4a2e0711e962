"""The edits of a change, and the outcome of each in this tree."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchkit.change.comments import loses_comments
from patchkit.change.regions import Region

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.change.outline import Item

    Key = tuple[Item, str]
    """Identifies an edit: the item that it changes, removes or adds, and the part of it: all, or its header."""
    Refusal = tuple["Outcome", str]
    """The outcome of an edit that is not made, and the reason."""


class Outcome(str, enum.Enum):
    """The outcome of an edit.

    It was made (``landed``), also where the code around it differs (``changed``), or the tree has it already. It was
    not made if the tree has other code at its site (``conflict``), has no such site, or lacks a name that the new code
    uses (``unmet``). An edit of a comment is not made either if the tree has a comment of its own, which is kept.
    """

    LANDED = "landed"
    CHANGED = "changed"
    KEPT = "kept"
    ALREADY = "already"
    CONFLICT = "conflict"
    NO_SITE = "no-site"
    UNMET = "unmet"

    @classmethod
    def made(cls, reason: str) -> Outcome:
        """Return the outcome of an edit that was made: for a ``reason``, the code around it differs."""
        return cls.CHANGED if reason else cls.LANDED


@dataclass(frozen=True, eq=False)
class EditOutcome:
    """One edit, which is no other one that has the same outcome: its site, outcome and reason.

    ``base_text`` is the code at the site in its own tree, ``ours_text`` that in this tree. ``wanted`` is the new
    code of an edit that was not made, ``place`` this tree's item, and ``region`` the extent of the conflict in it.
    """

    site: str
    outcome: Outcome
    reason: str = ""
    base_text: str = ""
    ours_text: str = ""
    wanted: str = ""
    place: Item | None = None
    key: Key | None = None
    region: Region | None = None

    @property
    def line(self) -> int:
        """The line of this tree's file at which it was made, or in conflict; 0 if it has none."""
        if self.region is not None:
            return self.region.line
        return 0 if self.place is None else self.place.line

    @property
    def loses_comment(self) -> bool:
        """Whether it is not made because the tree differs, and has a comment that this tree lacks."""
        return self.outcome is Outcome.KEPT and loses_comments(self.wanted, self.base_text, self.ours_text)


@dataclass
class EditLog:
    """The edits of a merge, in the order in which they were tried; those ``refused`` are not made."""

    refused: Mapping[Key, Refusal] = field(default_factory=dict)
    edits: list[EditOutcome] = field(default_factory=list)

    def is_refused(
        self, key: Key, *, base: Item | None = None, theirs: Item | None = None, region: Region | None = None
    ) -> bool:
        """Return whether an edit is refused; the reason is recorded."""
        refusal = self.refused.get(key)
        if refusal is not None:
            item, part = key
            base_text, wanted = (
                "" if item is None else item.head_dedented if part else item.dedented
                for item in (base, theirs)
            )
            self.reject(item.site, refusal, (base_text, wanted), region)
        return refusal is not None

    def is_refused_inside(self, *versions: Item) -> bool:
        """Return whether an edit of a part of these items is refused."""
        return any(item in version.walk() for item, _ in self.refused for version in versions)

    def reject(
        self, site: str, refusal: Refusal | str, sides: tuple[str, str], region: Region | None
    ) -> None:
        """Record an edit that is not made; ``sides`` are the expected and the wanted text of its region."""
        outcome, reason = (Outcome.CONFLICT, refusal) if isinstance(refusal, str) else refusal
        base_text, wanted = sides
        ours_text = "" if region is None else region.text
        place = None if region is None else region.inside
        self.edits.append(
            EditOutcome(site, outcome, reason, base_text, ours_text, wanted, place, region=region)
        )

    def record(
        self,
        item: Item,
        outcome: Outcome,
        reason: str = "",
        *,
        theirs: Item | None = None,
        ours: Item | None = None,
        key: Key | None = None,
    ) -> None:
        """Record the outcome of an edit of an item; its texts only if something of it is to be explained."""
        changed = outcome not in (Outcome.LANDED, Outcome.ALREADY)
        self.edits.append(
            EditOutcome(
                item.site,
                outcome,
                reason,
                item.dedented if changed else "",
                ours.dedented if changed and ours is not None else "",
                theirs.dedented if theirs is not None else "",
                ours,
                key,
            )
        )

    def conflict(self, base: Item, theirs: Item | None, ours: Item, reason: str) -> None:
        """Record a conflict: the item differs from the one that the change edits or removes."""
        wanted = "" if theirs is None else theirs.dedented
        self.reject(base.site, reason, (base.dedented, wanted), Region.of(ours))
