"""Compute what apply would change in a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.commands.apply import prepare
from patchkit.transaction.conflicts import read_without_conflicts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import Plan
    from patchkit.tree.tree import CheckoutTree


def diff(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> Plan:
    """Return what ``apply`` of ``ids`` (default: the default patches) would do, without the patches that do not fit."""
    return read_without_conflicts(
        tree, lambda read: prepare(read, patches, ids, keep_going=True, closest=True).plan
    )
