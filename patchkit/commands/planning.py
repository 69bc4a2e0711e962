"""What apply would do in a tree is planned, with the runtime where the tree's patched code takes it from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.plan import vendor
from patchkit.plan.build import make_plan
from patchkit.transaction.whole import require_whole
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import Plan
    from patchkit.tree.tree import CheckoutTree

    Contents = Mapping[str, bytes | None]


def plan_for(
    tree: CheckoutTree,
    patches: PatchSet,
    ids: Sequence[str],
    *,
    only: bool,
    runtime: str = "",
    closely: bool = False,
    certain: bool = False,
    contents: Contents | None = None,
) -> Plan:
    """Plan what apply does in ``tree``, some of whose files may have other ``contents``."""
    require_whole(tree)
    there = OverlayTree(tree, contents) if contents else tree
    chosen = patches.select(ids, only=only)
    if not _vendored(tree, patches, runtime):
        return make_plan(there, chosen, closely=closely, certain=certain)
    plan = make_plan(vendor.laid_over(there), vendor.pointed(chosen), closely=closely, certain=certain)
    return vendor.with_runtime(there, plan)


def _vendored(tree: CheckoutTree, patches: PatchSet, runtime: str) -> bool:
    """Tell whether patched code takes the runtime from the tree; ConflictError if some of it does otherwise."""
    if not runtime:
        return vendor.is_vendored(tree)
    vendored = runtime == "vendored"
    files = sorted({file for patch in patches for edit in patch.edits for file in edit.files})
    vendor.require_one_runtime(tree, files, vendored=vendored)
    return vendored
