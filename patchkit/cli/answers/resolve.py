"""The answer of ``resolve``."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from patchkit.cli.answers.base import Answer, EditState, TreeAnswer


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
