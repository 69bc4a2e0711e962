"""The parts that several answers have: the tree, and the states of patches."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, TypeVar

import msgspec

from patchkit.patchset import runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from patchkit.plan.status import PatchStatus
    from patchkit.tree.tree import CheckoutTree

_Answer = TypeVar("_Answer", bound="Answer")


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The answer of a command, or a part of one."""

    @classmethod
    def of(cls: type[_Answer], *results: object, **values: object) -> _Answer:
        """Return the answer with these values, and of the others what the first result that has it says.

        The answers in it are made of the results in those in the same way.
        """
        for name in cls.__struct_fields__:
            having = (result for result in results if hasattr(result, name))
            if name not in values and (result := next(having, None)) is not None:
                values[name] = getattr(result, name)
            if name in values and (kind := _answers_in(cls).get(name)) is not None:
                values[name] = kind.of(values[name])
        said = {name: _plain(value) for name, value in values.items() if value is not msgspec.UNSET}
        return msgspec.convert(SimpleNamespace(**said), cls, from_attributes=True)


@cache
def _answers_in(kind: type[Answer]) -> dict[str, type[Answer]]:
    """Return the fields of an answer that are answers themselves, with their types."""
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    return {name: of for name, of in types.items() if isinstance(of, type) and issubclass(of, Answer)}


def _plain(value: object) -> object:
    """Return a value with the names of files in place of paths."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return str(value) if isinstance(value, Path) else value


class TreeAnswer(Answer, frozen=True, kw_only=True):
    """The tree; ``version`` is null if it is unknown."""

    root: str
    package: str
    version: str | None


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


def states(tree: CheckoutTree, statuses: Iterable[PatchStatus]) -> tuple[PatchState, ...]:
    """Return the answers for patches on a tree."""
    known_runs, version = runs.read(), tree.version
    return tuple(
        PatchState.of(status, status.patch, ran=known_runs.all_ran(status.names, version))
        for status in statuses
    )
