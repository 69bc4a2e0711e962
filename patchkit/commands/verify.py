"""A patched tree is proved whole, or what is wrong with it is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.transaction.whole import require_whole
from patchkit.verify import engine
from patchkit.verify.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree
    from patchkit.verify.result import Verdict
    from patchkit.verify.subject import Terms


def verify(
    tree: CheckoutTree, patches: PatchSet, terms: Terms, watch: Callable[[str, int], None] | None = None
) -> Verdict:
    """Make every check of a patched tree; ``watch`` is told each one's title and of how many it is one."""
    require_whole(tree)
    return engine.verify(Subject(tree, tuple(patches), terms), watch)
