"""A tree and the states of its patches, as every JSON answer says them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchkit.patchset import runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchkit.plan.status import PatchStatus
    from patchkit.tree.tree import CheckoutTree, Tree


def place(tree: CheckoutTree) -> dict[str, Any]:
    """Return which tree it is, as every JSON answer says it."""
    return {"tree": {"root": str(tree.root), "package": str(tree.package), "version": tree.version}}


def states(tree: Tree, statuses: Iterable[PatchStatus]) -> dict[str, Any]:
    """Return each patch's and each edit's state, as every JSON answer says them."""
    known, version = runs.read(), tree.version
    return {
        "patches": [
            {
                "id": status.patch.id,
                "title": status.patch.title,
                "state": status.state.value,
                "reason": status.reason,
                "ran": known.ran(status.patch.id, version),
                "edits": [
                    {"file": edit.file, "site": edit.site, "state": edit.state.value, "reason": edit.reason}
                    for edit in status.edits
                ],
            }
            for status in statuses
        ]
    }


def strangers(unknown: Sequence[str]) -> dict[str, Any]:
    """Return the patches that a tree has and that are not at hand, where there are some."""
    return {"unknown": list(unknown)} if unknown else {}
