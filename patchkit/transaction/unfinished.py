"""A tree in which patchkit left conflicts for a person is known by their markers, and what it was is told."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.patchset.patch import Patch
from patchkit.plan.markers import Block, HalfError, as_found, blocks_in
from patchkit.plan.status import EditStatus, PatchStatus, State
from patchkit.transaction.store import Store
from patchkit.tree.sglang import SERVING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from patchkit.tree.tree import CheckoutTree


def unfinished(tree: CheckoutTree) -> Mapping[str, tuple[Block, ...]]:
    """Return the conflicts that stand in each file; TreeError where one lacks some of its markers."""
    files = set(tree.files(SERVING))
    # A ledger that cannot be read is whoever's writes to say.
    with suppress(TreeError):
        files.update(file for record in Store(tree.package).read().records for file in record.files)
    found: dict[str, tuple[Block, ...]] = {}
    for file in sorted(files):
        try:
            blocks = blocks_in(tree.read(file) or b"")
        except HalfError as error:
            raise TreeError(
                f"{file}:{error.line}: some of the markers of this conflict are gone: take the others out when "
                "the code between them is as you want it, or give it up with patchkit resolve --give-up PATCH EDIT."
            ) from None
        if blocks:
            found[file] = blocks
    return found


def require_finished(tree: CheckoutTree) -> None:
    """Raise TreeError if a conflict of an earlier apply stands in the tree."""
    for file, blocks in unfinished(tree).items():
        block = blocks[0]
        raise TreeError(
            f"{file}:{block.start + 1}: {block.patch} {block.edit} is still in conflict: {advice(block)}; "
            f"patchkit revert {tree.root} reverts everything."
        )


def advice(block: Block) -> str:
    """Return what to do with a conflict."""
    return (
        f"edit what is between the markers, take them out and run patchkit resolve {block.patch} {block.edit}, "
        "or give it up with resolve --give-up"
    )


def before_markers(tree: CheckoutTree) -> dict[str, bytes | None]:
    """Return the files with conflicts as they are without them."""
    return {file: as_found(tree.read(file) or b"", blocks) for file, blocks in unfinished(tree).items()}


def as_left(
    statuses: Iterable[PatchStatus], blocks: Mapping[str, Iterable[Block]]
) -> tuple[PatchStatus, ...]:
    """Return the statuses with the conflicts that are left for a person to finish, also those of a port."""
    left = {
        (block.patch, block.edit, file): f"line {block.start + 1}: {advice(block)}"
        for file, inside in blocks.items()
        for block in inside
    }
    known = tuple(statuses)
    names = dict.fromkeys(at[0] for at in left)
    ported = [name for name in names if name not in {status.patch.id for status in known}]
    others = (PatchStatus(nameless(name), State.CONFLICT, ()) for name in ported)
    return tuple(_as_left(status, left) for status in (*known, *others))


def nameless(name: str) -> Patch:
    """Return a patch of which nothing is at hand but what it is called, as of a change that was ported."""
    return Patch(id=name, title=name, why="", risk="", verify="", edits=())


def _as_left(status: PatchStatus, left: Mapping[tuple[str, str, str], str]) -> PatchStatus:
    mine = {at[1:]: told for at, told in left.items() if at[0] == status.patch.id}
    if not mine:
        return status
    said = {(edit.name, edit.file): edit for edit in status.edits}
    for (name, file), told in mine.items():
        edit = said.get((name, file), EditStatus(name, file, "", State.CONFLICT))
        said[name, file] = replace(edit, state=State.CONFLICT, reason=told)
    return replace(status, state=State.CONFLICT, edits=tuple(said.values()))
