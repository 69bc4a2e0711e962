"""Diagnose a server configuration: which components need the CPU mirror, and how to do without it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from patchkit.commands.status import status
from patchkit.doctor.diagnosis import diagnose
from patchkit.doctor.options import Arguments
from patchkit.transaction.write import read_consistently

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.doctor.diagnosis import Diagnosis
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree


def doctor(tree: CheckoutTree, patches: PatchSet, words: Sequence[str], settings: bytes = b"") -> Diagnosis:
    """Return which components of a server on ``tree`` need the CPU mirror, why, and which patches or options remove it.

    ``words`` are the server's options or its launch command, ``settings`` a ``ServerArgs`` JSON. Raise UsageError for
    an option that the tree's server does not have.
    """

    def diagnosis(read: CheckoutTree) -> Diagnosis:
        launch = Arguments(read).launch(words, settings)
        return diagnose(read, launch, functools.partial(status, read, patches))

    return read_consistently(tree, diagnosis)
