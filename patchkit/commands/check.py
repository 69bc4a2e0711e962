"""A patch of one's own is checked by its examples and for undefined names, before anybody applies it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.patchset import load
from patchkit.patchset.examples import examples_in
from patchkit.plan.rehearse import faults_of, undefined_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.tree.tree import Tree


@dataclass(frozen=True)
class CheckedPatch:
    """What is wrong with a patch of one's own; ``examples`` is how many of its examples were run."""

    patch: str
    folder: Path
    examples: int
    faults: tuple[str, ...]


def check_patches(folder: Path, trees: Sequence[Tree] = ()) -> tuple[CheckedPatch, ...]:
    """Run the examples of the patch in ``folder``, or of those one folder below; find undefined names.

    ``trees`` are those whose files the new code has to be right in. UsageError for a malformed patch.
    """
    patches = load.patches([folder])
    checked = []
    for path in load.files_in(folder):
        patch = patches.get(load.named_in(path))
        examples = examples_in(path.parent)
        faults = [f"{each.shows} {fault}" for each in examples for fault in faults_of(patch, each)]
        for tree in trees:
            faults += undefined_in(tree, patches.select([patch.id], only=True))
        checked.append(CheckedPatch(patch.id, path.parent, len(examples), tuple(faults)))
    return tuple(checked)
