"""Diagnose server configurations: which components need the CPU mirror, and how to do without it."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.commands.status import status
from patchkit.doctor.command_line import command_of
from patchkit.doctor.diagnosis import diagnose
from patchkit.doctor.examined import ExaminedTree
from patchkit.doctor.execution.process import Execution
from patchkit.doctor.files import FoundServer
from patchkit.doctor.options import Arguments
from patchkit.errors import UsageError
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
    resolves them in a child process unless ``read_only``. Raise UsageError for options that the tree refuses.
    """
    server = FoundServer("", command_of(words))
    (diagnosis,) = diagnoses(tree, patches, [server], settings, gpus=gpus, models=models, read_only=read_only)
    if isinstance(diagnosis, UsageError):
        raise diagnosis
    return diagnosis


def diagnoses(
    tree: CheckoutTree,
    patches: PatchSet,
    servers: Sequence[FoundServer],
    settings: bytes = b"",
    *,
    gpus: Sequence[str] = (),
    models: Mapping[str, bytes] | None = None,
    read_only: bool = False,
    advises: bool = True,
) -> list[Diagnosis | UsageError]:
    """Return the diagnosis of each server, or the tree's refusal; the tree is read once, and imported once.

    The other arguments are those of ``doctor``. Without ``advises`` no remedies are looked for.
    """

    def of_tree(read: CheckoutTree) -> list[Diagnosis | UsageError]:
        examined = ExaminedTree(read, functools.partial(status, read, patches), advises=advises)
        results: list[Diagnosis | UsageError] = []
        with nullcontext() if read_only else Execution(read.package, read.name, Path.cwd()) as execution:
            arguments = Arguments(read, execution, gpus, models)
            for server in servers:
                try:
                    results.append(diagnose(examined, arguments.launch(server.command, settings)))
                except UsageError as error:
                    results.append(error)
        return results

    return read_consistently(tree, of_tree)
