"""Verify that the patches in a tree are complete and fit its code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.transaction.conflicts import read_without_conflicts
from patchkit.verify import engine
from patchkit.verify.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree
    from patchkit.verify.result import Verdict
    from patchkit.verify.subject import Criteria


def verify(
    tree: CheckoutTree, patches: PatchSet, criteria: Criteria, watch: Callable[[str, int], None] | None = None
) -> Verdict:
    """Run every check on a patched tree; ``watch`` is called with each check's title and the number of checks."""
    return read_without_conflicts(
        tree, lambda read: engine.verify(Subject(read, tuple(patches), criteria), watch)
    )
