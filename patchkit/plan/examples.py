"""Run a patch folder's examples on files in memory, and report names that new code leaves undefined."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from patchkit.change.undefined import undefined_names
from patchkit.plan.build import make_plan
from patchkit.plan.status import State
from patchkit.tree.tree import MemoryTree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.patchset.examples import PatchExample
    from patchkit.patchset.patch import BasedDiff, Patch
    from patchkit.tree.tree import Tree


def faults_of(patch: Patch, example: PatchExample) -> Iterator[str]:
    """Yield the differences between an example and what the patch does, none if the example passes."""
    edits = tuple(
        edit
        for edit in patch.edits
        if example.file in edit.files and example.edit in {"", edit.name, edit.name.rpartition(".")[0]}
    )
    if not edits:
        yield f"no edit {example.edit or 'at all'} is for {example.file}".replace("  ", " ")
        return
    alone = msgspec.structs.replace(
        patch,
        edits=tuple(msgspec.structs.replace(edit, part="", shapes=()) for edit in edits),
        parts=(),
        diffs=tuple(_within(diff, example.file) for diff in patch.diffs),
        requires=(),
        any_shape_of=(),
        applies_when=(),
        upstream_when=(),
        shapes={},
    )
    plan = make_plan(MemoryTree({example.file: example.before.encode()}), (alone,))
    (status,) = plan.patches
    if example.refusal:
        if example.refusal not in status.reason:
            problem = status.reason or f"it is {status.state.value}"
            yield f"expected the refusal {example.refusal!r}, found: {problem}"
        return
    if status.state is State.CONFLICT:
        yield status.reason
        return
    (after,) = [change.after for change in plan.changes if change.file == example.file] or [
        example.before.encode()
    ]
    wanted = example.after or example.before
    if (after or b"").decode().strip() != wanted.strip():
        yield f"the result differs:\n{(after or b'').decode().strip()}"
    yield from undefined(example.before.encode(), after or b"", example.file)


def _within(diff: BasedDiff, file: str) -> BasedDiff:
    """Return what a diff changes in one file."""
    return msgspec.structs.replace(
        diff,
        files={name: texts for name, texts in diff.files.items() if name == file},
        edits={name: edit for name, edit in diff.edits.items() if edit.file == file},
    )


def undefined_in(tree: Tree, patches: tuple[Patch, ...]) -> Iterator[str]:
    """Yield the names that applying the patches to a tree would leave undefined, with their locations."""
    for change in make_plan(tree, patches).changes:
        yield from undefined(change.before or b"", change.after or b"", change.file)


def undefined(before: bytes, after: bytes, file: str) -> list[str]:
    """Return a message for each name that is undefined in ``after`` and was not in ``before``."""
    return [f"{file}:{line}: {name} is not defined there" for name, line in undefined_names(before, after)]
