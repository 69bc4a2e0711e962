"""What a tree was before its patches, as its ledger has it, where nobody else has touched their files since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.plan.planner import Origin
from patchkit.transaction.holding import holding
from patchkit.transaction.store import Store
from patchkit.transaction.swap import digest_or_none

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree


def origin(tree: CheckoutTree) -> Origin | None:
    """Return what the tree's patches were applied to; None if it has none or a person edited one of their files.

    It is None too where the ledger cannot be read: to refuse that is for who writes.
    """
    store = Store(tree.package)
    try:
        record = holding(store.read(), tree.read, store.get)
        if record is None or len(record.layers) != 1 or record.by_hand:
            return None
        if any(digest_or_none(tree.read(file)) != known.applied for file, known in record.files.items()):
            return None
        contents = {
            file: None if known.original is None else store.get(known.original)
            for file, known in record.files.items()
        }
    except TreeError:
        return None
    makers = frozenset((file, name) for file, known in record.files.items() for name in known.patches)
    return Origin(tuple(record.patches), contents, makers)
