"""The parts that several answers have: the tree, and the states of patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from patchkit.patchset import runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from patchkit.plan.status import EditStatus, PatchStatus
    from patchkit.series.commit import Commit
    from patchkit.tree.tree import CheckoutTree


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The answer of a command, or a part of one."""


class TreeAnswer(Answer, frozen=True, kw_only=True):
    """The tree; ``version`` is null if it is unknown."""

    root: str
    package: str
    version: str | None

    @classmethod
    def of(cls, tree: CheckoutTree) -> TreeAnswer:
        """Return the answer for a tree."""
        return cls(root=str(tree.root), package=str(tree.package), version=tree.version)


class EditState(Answer, frozen=True, kw_only=True):
    """An edit; ``file`` is relative to the package folder, ``site`` is the dotted name in it.

    ``difference`` is a unified diff, from what patches wrote in the file to what stands there, of an edit that a person
    changed; empty for others.
    """

    file: str
    site: str
    state: str
    reason: str
    difference: str = ""

    @classmethod
    def of(cls, edit: EditStatus) -> EditState:
        """Return the answer for an edit."""
        return cls(
            file=edit.file,
            site=edit.site,
            state=edit.state.value,
            reason=edit.reason,
            difference=edit.difference,
        )


class PatchState(Answer, frozen=True, kw_only=True):
    """A patch; ``state`` is applied, edited, upstream, unknown, pending, partial, conflict or not-applicable.

    A patch is edited if a person changed code of it that patchkit wrote, and unknown if it is in place and nothing
    tells whose it is.
    ``ran`` is whether it ran on a GPU with this release and gave the unpatched tokens, null if that is unknown.
    ``left_out`` is the reason why the fork's configuration leaves it out, ``opt_in`` whether apply makes it only by
    name.
    """

    id: str
    title: str
    state: str
    reason: str
    ran: bool | None
    edits: tuple[EditState, ...]
    left_out: str = ""
    opt_in: bool = False


class States(Answer, frozen=True, kw_only=True):
    """A tree, and the states of its patches."""

    tree: TreeAnswer
    patches: tuple[PatchState, ...]


class LeftOutAnswer(Answer, frozen=True, kw_only=True):
    """A patch that was left out, and the reason."""

    patch: str
    reason: str

    @classmethod
    def each(cls, left: Mapping[str, str]) -> tuple[LeftOutAnswer, ...]:
        """Return the answers for patches that were left out, given their reasons."""
        return tuple(cls(patch=name, reason=reason) for name, reason in left.items())


class CommitAnswer(Answer, frozen=True, kw_only=True):
    """A commit that ``--commit`` made."""

    patch: str
    commit: str

    @classmethod
    def of(cls, commit: Commit) -> CommitAnswer:
        """Return the answer for a commit."""
        return cls(patch=commit.patch, commit=commit.commit)


def states(tree: CheckoutTree, statuses: Iterable[PatchStatus]) -> tuple[PatchState, ...]:
    """Return the answers for patches on a tree."""
    known, version = runs.read(), tree.version
    return tuple(
        PatchState(
            id=status.patch.id,
            title=status.patch.title,
            state=status.state.value,
            reason=status.reason,
            ran=known.all_ran(status.names, version),
            edits=tuple(map(EditState.of, status.edits)),
            left_out=status.patch.left_out,
            opt_in=status.patch.opt_in,
        )
        for status in statuses
    )
