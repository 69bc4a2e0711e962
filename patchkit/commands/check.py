"""A patch of one's own is checked by its examples and for undefined names, before anybody applies it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.patchset import load
from patchkit.patchset.examples import examples_in
from patchkit.plan.rehearse import faults_of, undefined_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from patchkit.tree.tree import Tree


_TODO = re.compile(r"""(?:\w+ = "|# )todo: (.*?)"?$""")


@dataclass(frozen=True)
class CheckedPatch:
    """What is wrong with a patch of one's own; ``examples`` is how many of its examples were run."""

    patch: str
    folder: Path
    examples: int
    faults: tuple[str, ...]


def _unwritten(path: Path) -> Iterator[str]:
    """Yield what a draft leaves to be done by hand, and where that stands."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        found = _TODO.match(line)
        if found:
            yield f"{path.name}:{number}: still to be written: {found[1]}"


def check_patches(folder: Path, trees: Sequence[Tree] = ()) -> tuple[CheckedPatch, ...]:
    """Run the examples of the patch in ``folder``, or of those one folder below; find undefined names and ``todo``.

    ``trees`` are those whose files the new code has to be right in. UsageError for a malformed patch.
    """
    patches = load.patches([folder])
    checked = []
    for path in load.files_in(folder):
        patch = patches.get(load.named_in(path))
        examples = examples_in(path.parent)
        faults = [f"{each.shows} {fault}" for each in examples for fault in faults_of(patch, each)]
        faults += _unwritten(path)
        for tree in trees:
            faults += undefined_in(tree, patches.select([patch.id], only=True))
        checked.append(CheckedPatch(patch.id, path.parent, len(examples), tuple(faults)))
    return tuple(checked)
