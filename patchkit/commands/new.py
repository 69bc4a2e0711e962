"""A patch folder is drafted from a diff or a commit, and what its edits make is compared with that."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.drafting import difference, write
from patchkit.drafting.draft import draft, same_code
from patchkit.errors import UsageError
from patchkit.patchset import load
from patchkit.plan.build import make_plan
from patchkit.plan.spelling import as_upstream
from patchkit.plan.status import State
from patchkit.tree.git import GitRepository, GitTree, place_of
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.drafting.draft import Drafted
    from patchkit.tree.tree import CheckoutTree


@dataclass(frozen=True)
class DraftedPatch:
    """A drafted patch's file, how many edits it has, what a person has to do, and whether they make the diff."""

    file: Path
    edits: int
    todo: tuple[str, ...]
    exact: bool


def new(
    tree: CheckoutTree, identifier: str, folder: Path, *, diff: str = "", commit: str = ""
) -> DraftedPatch:
    """Draft ``folder/patch.toml`` from a unified ``diff`` against ``tree``, or from a ``commit`` of its repository.

    UsageError if ``folder`` has a patch, if the diff's lines are not in the tree, or if it changes no Python.
    """
    file = folder / "patch.toml"
    if file.exists():
        raise UsageError(f"{file} is there already: name another folder with -o.")
    sources = difference.of_commit(tree, commit) if commit else difference.of_diff(tree, diff)
    edits, left = draft(
        {
            file: (old and as_upstream(old, tree.name), new and as_upstream(new, tree.name))
            for file, (old, new) in sources.items()
        }
    )
    if not edits:
        raise UsageError(
            f"{identifier}: nothing that an edit can say: {' '.join(left) or 'only layout changes.'}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(write.text(identifier, "", edits, left), encoding="utf-8")
    try:
        patches = load.patches([folder])
    except UsageError as error:
        return DraftedPatch(file, len(edits), (*_todo(edits), *left, str(error)), False)
    with GitRepository(tree.root) if commit else nullcontext() as repository:
        below = GitTree(repository, f"{commit}^", place_of(tree.package)) if repository is not None else tree
        before = {name: old.encode() for name, (old, _) in sources.items() if old is not None}
        plan = make_plan(OverlayTree(below, before), (patches.get(identifier),))
    made = {change.file: (change.after or b"").decode() for change in plan.changes}
    wanted = {name: text for name, (_, text) in sources.items() if text is not None}
    exact = not left and all(same_code(made.get(name, ""), text) for name, text in wanted.items())
    stuck = tuple(
        f"{edit.name}: {edit.reason}"
        for s in plan.patches
        for edit in s.edits
        if edit.state is State.CONFLICT
    )
    return DraftedPatch(file, len(edits), (*_todo(edits), *left, *stuck), exact)


def _todo(edits: Sequence[Drafted]) -> tuple[str, ...]:
    return tuple(f"{edit.at}: {edit.kind}: {one}" for edit in edits for one in edit.todo)
