"""Compute the trees that the tests patch, with a mutated patch."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from patchkit.errors import PatchkitError
from patchkit.patchset import load
from patchkit.plan.build import make_plan
from patchkit.plan.status import State

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.patchset.patch import Patch
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree

    from .mutants import Mutant

Contents = dict[str, bytes]


@dataclass(frozen=True)
class ReferenceTree:
    """A tree and the patches that tests apply to it."""

    name: str
    tree: CheckoutTree
    patches: tuple[str, ...]

    def patched(self, patches: PatchSet, files: Sequence[str] = ()) -> Contents | None:
        """Return the result of ``patches`` on the tree, or on ``files``; None if one does not apply."""
        chosen: Sequence[Patch] = patches.select(self.patches)
        if files:
            chosen = [part for patch in chosen if (part := _part(patch, files)).edits]
        plan = make_plan(self.tree, chosen)
        if any(status.state is State.CONFLICT for status in plan.patches):
            return None
        return {change.file: change.after or b"" for change in plan.changes}


def _part(patch: Patch, files: Sequence[str]) -> Patch:
    edits = tuple(edit for edit in patch.edits if set(files).intersection(edit.files))
    return replace(patch, edits=edits, requires=())


class ReferenceTrees:
    """All of the trees, and their differences with a mutated patch."""

    def __init__(self, references: Sequence[ReferenceTree], checkout: Path) -> None:
        """Plan with the patches of ``checkout``, a copy that this object may write to."""
        self._trees = references
        self._checkout = checkout
        self._seen: set[str] = set()
        load.BUILT_IN = checkout / "patches"
        self._patches = load.patches()
        self._contents: dict[str, Contents] = {}
        for reference in references:
            contents = self._clean(reference, ())
            if contents is None:
                raise SystemExit(
                    f"mutate: the patches do not apply to the {reference.name} tree; fix that first."
                )
            self._contents[reference.name] = contents

    @functools.cache  # noqa: B019 - there is one, and it exists until the program ends
    def _clean(self, reference: ReferenceTree, files: tuple[str, ...]) -> Contents | None:
        return reference.patched(self._patches, files)

    def changed_by(self, mutant: Mutant) -> dict[str, Contents]:
        """Return the files of each tree that mean something else, with their new content.

        Empty if the patch gives the same trees as before or as an earlier mutant, or does not apply.
        """
        path = self._checkout / mutant.file
        original = path.read_bytes()
        path.write_text(mutant.text, encoding="utf-8")
        try:
            patches = load.patches()
            changed = {
                reference.name: self._changed(reference, patches, mutant.sites) for reference in self._trees
            }
        except (PatchkitError, ValueError):
            return {}
        finally:
            path.write_bytes(original)
        found = {name: contents for name, contents in changed.items() if contents}
        effect = repr(
            [(name, file, meaning(found[name][file])) for name in found for file in sorted(found[name])]
        )
        if None in changed.values() or effect in self._seen:
            return {}
        self._seen.add(effect)
        return found

    def _changed(
        self, reference: ReferenceTree, patches: PatchSet, files: tuple[str, ...]
    ) -> Contents | None:
        # A file's plan seldom depends on others; if it does, all files are planned.
        clean, expected = self._clean(reference, files), self._contents[reference.name]
        if clean is None or any(expected.get(file) != content for file, content in clean.items()):
            clean, files = expected, ()
        contents = reference.patched(patches, files)
        if contents is None:
            return None
        after = {file: contents.get(file) or reference.tree.read(file) or b"" for file in {*clean, *contents}}
        return {
            file: content
            for file, content in after.items()
            if meaning(content) != meaning(clean.get(file) or reference.tree.read(file) or b"")
        }


@functools.cache
def meaning(source: bytes) -> str:
    """Return a program without layout, comments and statements without effect."""
    module = ast.parse(source)
    for node in ast.walk(module):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, [one for one in block if not isinstance(one, ast.Pass)])
    return ast.dump(module)
