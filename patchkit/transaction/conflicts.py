"""Find the conflict markers that patchkit wrote to a tree."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from patchkit.errors import TreeError
from patchkit.patchset.patch import Patch
from patchkit.plan import record
from patchkit.plan.comments import SIGNS
from patchkit.plan.markers import IncompleteMarkersError, MarkedConflict, marked_conflicts, without_markers
from patchkit.plan.status import EditStatus, PatchStatus, State
from patchkit.transaction.write import read_consistently

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from patchkit.tree.tree import CheckoutTree, ReadTree

UNRECORDED = "the conflict markers were removed, and the code in their place is not recorded"
_Result = TypeVar("_Result")


def conflicts_in(tree: CheckoutTree) -> Mapping[str, tuple[MarkedConflict, ...]]:
    """Return the conflicts in each file. Raise TreeError if one lacks some of its markers."""
    files = set(tree.containing(*SIGNS))
    # A damaged record is reported by the commands that need it.
    with suppress(TreeError):
        files.update(record.read(tree).files)
    by_file: dict[str, tuple[MarkedConflict, ...]] = {}
    for file in sorted(files):
        try:
            blocks = marked_conflicts(tree.read(file) or b"")
        except IncompleteMarkersError as error:
            raise TreeError(
                "some of the conflict's markers are missing",
                where=f"{file}:{error.line}",
                advice="edit the code and remove the other markers, or run patchkit resolve --give-up with the patch "
                "and the edit that they name",
            ) from None
        if blocks:
            by_file[file] = blocks
    return by_file


def require_no_conflicts(tree: CheckoutTree) -> None:
    """Raise TreeError if the tree contains conflict markers."""
    for file, blocks in conflicts_in(tree).items():
        block = blocks[0]
        raise TreeError(
            f"conflict markers of {block.patch} {block.edit}",
            where=f"{file}:{block.start + 1}",
            advice=f"{advice(block)}; patchkit revert reverts all patches",
        )


def read_without_conflicts(tree: CheckoutTree, compute: Callable[[ReadTree], _Result]) -> _Result:
    """Return what ``compute`` returns for the tree, as ``read_consistently`` does.

    Raise TreeError if a write was interrupted, or if the tree contains conflict markers.
    """

    def checked(read: ReadTree) -> _Result:
        require_no_conflicts(read)
        return compute(read)

    return read_consistently(tree, checked)


def advice(block: MarkedConflict) -> str:
    """Return how to resolve a conflict, for messages."""
    return (
        f"edit the code between the markers, remove them and run patchkit resolve {block.patch} {block.edit}; "
        f"patchkit resolve --give-up {block.patch} {block.edit} leaves the edit out"
    )


def before_markers(tree: CheckoutTree) -> dict[str, bytes | None]:
    """Return the files that contain conflict markers, with the code from before them."""
    return {
        file: without_markers(tree.read(file) or b"", blocks) for file, blocks in conflicts_in(tree).items()
    }


def with_conflicts(
    statuses: Iterable[PatchStatus], blocks: Mapping[str, Iterable[MarkedConflict]]
) -> tuple[PatchStatus, ...]:
    """Return the statuses with every conflict that has markers in the tree, also those of a port."""
    reasons = {
        (block.patch, block.edit, file): f"line {block.start + 1}: {advice(block)}"
        for file, file_blocks in blocks.items()
        for block in file_blocks
    }
    all_statuses = tuple(statuses)
    names = dict.fromkeys(key[0] for key in reasons)
    ported = [name for name in names if name not in {status.patch.id for status in all_statuses}]
    others = (PatchStatus(placeholder(name), State.CONFLICT, ()) for name in ported)
    return tuple(_with_conflicts(status, reasons, {*State}) for status in (*all_statuses, *others))


def placeholder(name: str) -> Patch:
    """Return a patch with only a name, such as for a ported change."""
    return Patch(id=name, title=name, why="", risk="", verify="", edits=())


def with_unrecorded(
    statuses: Iterable[PatchStatus], unrecorded: Collection[tuple[str, str, str]]
) -> tuple[PatchStatus, ...]:
    """Return the statuses with, as the reason of a conflict, that its markers were removed and what is to be run.

    ``unrecorded`` are patch id, edit name and file. An edit that is in place keeps its status.
    """
    reasons = {key: f"{UNRECORDED}: {recording(*key[:2])}" for key in unrecorded}
    return tuple(
        _with_conflicts(status, reasons, {State.CONFLICT}) if status.state is State.CONFLICT else status
        for status in statuses
    )


def recording(patch: str, edit: str) -> str:
    """Return how to record an edit whose conflict markers a person removed, for messages."""
    resolve = "patchkit resolve"
    return f"run {resolve} {patch} {edit}, or {resolve} --accept {patch} {edit} to record it without a check"


def _with_conflicts(
    status: PatchStatus, reasons: Mapping[tuple[str, str, str], str], states: Collection[State]
) -> PatchStatus:
    """Return a status with those of its edits that have one of the ``states`` in conflict, for these reasons."""
    own = {key[1:]: reason for key, reason in reasons.items() if key[0] == status.patch.id}
    if not own:
        return status
    edits = {(edit.name, edit.file): edit for edit in status.edits}
    for (name, file), reason in own.items():
        edit = edits.get((name, file), EditStatus(name, file, "", State.CONFLICT))
        if edit.state in states:
            edits[name, file] = replace(edit, state=State.CONFLICT, reason=reason)
    return replace(status, state=State.CONFLICT, edits=tuple(edits.values()))
