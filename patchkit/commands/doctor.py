"""Diagnose a server configuration: which components need the CPU mirror, and how to do without it."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.commands.status import status
from patchkit.doctor.command_line import command_of
from patchkit.doctor.diagnosis import diagnose
from patchkit.doctor.execution.process import Execution
from patchkit.doctor.options import Arguments
from patchkit.transaction.write import read_consistently

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.doctor.diagnosis import Diagnosis
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree


def doctor(
    tree: CheckoutTree,
    patches: PatchSet,
    words: Sequence[str],
    settings: bytes = b"",
    *,
    gpus: Sequence[str] = (),
    models: Mapping[str, bytes] | None = None,
    read_only: bool = False,
) -> Diagnosis:
    """Return which components of a server on ``tree`` need the CPU mirror, why, and which patches or options remove it.

    ``words`` are the server's options or its launch command, ``settings`` a ``ServerArgs`` JSON, ``models`` the
    ``config.json`` of its ``model`` and of the ``draft`` where these are not on this machine. The tree's own code
    settles them in a child process unless ``read_only``. Raise UsageError for options that the tree refuses.
    """
    command = command_of(words)

    def diagnosis(read: CheckoutTree) -> Diagnosis:
        with nullcontext() if read_only else Execution(read.package, read.name, Path.cwd()) as execution:
            launch = Arguments(read, execution, gpus, models or {}).launch(command, settings)
            return diagnose(read, launch, functools.partial(status, read, patches))

    return read_consistently(tree, diagnosis)
