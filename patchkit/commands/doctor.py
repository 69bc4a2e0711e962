"""What a server's configuration comes to on a tree: who keeps the CPU mirror, and what would free it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.commands.status import status
from patchkit.doctor.diagnosis import diagnose
from patchkit.doctor.options import Arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.doctor.diagnosis import Diagnosis
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree


def doctor(tree: CheckoutTree, patches: PatchSet, words: Sequence[str], settings: bytes = b"") -> Diagnosis:
    """Return what a server started on ``tree`` comes to: who keeps the CPU mirror, why, and what would free it.

    ``words`` are its options or its launch command, ``settings`` a ``ServerArgs`` JSON. UsageError for an
    option that the tree's server does not have.
    """
    launch = Arguments(tree).launch(words, settings)
    return diagnose(tree, launch, status(tree, patches))
