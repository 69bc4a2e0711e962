"""Check a patch folder: run its examples, and find undefined names and unfinished drafts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from patchkit.patchset import load
from patchkit.patchset.examples import examples_in
from patchkit.patchset.patch import TODO
from patchkit.plan.examples import faults_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from patchkit.patchset.patch import Patch


_PULL = re.compile(r"/pull/(\d+)/?$")
_TODO = re.compile(rf"""(?:\w+ = "|# ){TODO}(.*?)"?$""")


class CheckedPatch(msgspec.Struct, frozen=True):
    """A patch folder: the number of its examples that were run, and its faults."""

    patch: str
    folder: Path
    examples: int
    faults: tuple[str, ...]


def _unwritten(path: Path) -> Iterator[str]:
    """Yield a message for each ``todo`` of a draft, with its location."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        match = _TODO.match(line)
        if match:
            yield f"{path.name}:{number}: still to be written: {match[1]}"


def unrecognised(patch: Patch) -> Iterator[str]:
    """Yield a message if a patch is a pull request of upstream's and does not say how a tree with it is recognised.

    A link to another pull request, without its commit, is only for further reading.
    """
    for part in () if patch.diffs else patch.all_parts:
        number = _PULL.search(part.upstream)
        is_its_own = number is not None and (bool(part.upstream_commit) or number[1] == patch.id)
        if is_its_own and not part.upstream_when:
            yield (
                f"upstream_when: missing for {part.upstream}: without it status reports upstream's own form as applied "
                "once any patch has edited the file"
            )


def check_patches(folder: Path) -> tuple[CheckedPatch, ...]:
    """Return the faults of the patch in ``folder``, or of the patches directly below it.

    Faults are failed examples, ``todo`` entries, and an upstream change that is not recognised. Raise UsageError for a
    malformed patch.
    """
    patches = load.patches([folder])
    checked = []
    for path in load.files_in(folder):
        patch = patches.get(load.named_in(path))
        examples = examples_in(path.parent)
        faults = [f"{example.shows} {fault}" for example in examples for fault in faults_of(patch, example)]
        faults += [*_unwritten(path), *unrecognised(patch)]
        checked.append(CheckedPatch(patch.id, path.parent, len(examples), tuple(faults)))
    return tuple(checked)
