"""The answer of ``resolve``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from patchkit.cli.answers.base import Answer, EditState, TreeAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.commands.resolve import ResolveResult, SharedResolutions
    from patchkit.plan.status import EditStatus
    from patchkit.tree.tree import CheckoutTree


class OpenEdit(EditState, frozen=True, kw_only=True):
    """An edit in conflict, with its name."""

    edit: str


class Resolve(Answer, frozen=True, kw_only=True):
    """The answer of ``resolve``.

    ``recorded`` is false if the edit was recorded before. ``remembered`` is whether its code can be used for other
    conflicts. ``accepted`` is whether it was recorded without a check of the code, ``given_up`` whether it was left out
    by ``--give-up``. With ``--export`` the only keys are ``files``, the files written, and ``left``, the resolutions
    that could not be written. Without an EDIT they are ``patch`` and ``open``, its edits in conflict.
    """

    tree: TreeAnswer
    patch: str | UnsetType = UNSET
    edit: str | UnsetType = UNSET
    recorded: bool | UnsetType = UNSET
    remembered: bool | UnsetType = UNSET
    accepted: bool | UnsetType = UNSET
    given_up: bool = False
    files: tuple[str, ...] | UnsetType = UNSET
    left: tuple[str, ...] | UnsetType = UNSET
    open: tuple[OpenEdit, ...] | UnsetType = UNSET

    @classmethod
    def of(cls, tree: CheckoutTree, patch: str, edit: str, resolved: ResolveResult) -> Resolve:
        """Return the answer for an edit."""
        return cls(
            tree=TreeAnswer.of(tree),
            patch=patch,
            edit=edit,
            recorded=resolved.recorded,
            remembered=resolved.remembered,
            accepted=resolved.accepted,
        )

    @classmethod
    def of_given_up(cls, tree: CheckoutTree, patch: str, edit: str) -> Resolve:
        """Return the answer for an edit that is left out."""
        return cls(
            tree=TreeAnswer.of(tree),
            patch=patch,
            edit=edit,
            recorded=False,
            remembered=False,
            accepted=False,
            given_up=True,
        )

    @classmethod
    def of_open(cls, tree: CheckoutTree, patch: str, edits: Iterable[EditStatus]) -> Resolve:
        """Return the answer for the edits of a patch that are in conflict."""
        found = (
            OpenEdit(
                edit=each.name, file=each.file, site=each.site, state=each.state.value, reason=each.reason
            )
            for each in edits
        )
        return cls(tree=TreeAnswer.of(tree), patch=patch, open=tuple(found))

    @classmethod
    def of_export(cls, tree: CheckoutTree, shared: SharedResolutions) -> Resolve:
        """Return the answer for resolutions written as patch folders."""
        return cls(tree=TreeAnswer.of(tree), files=tuple(map(str, shared.files)), left=shared.left_out)
