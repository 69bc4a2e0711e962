"""Log once whether the mirror is kept, what reads it, the patches in the tree, and switches without effect."""

from __future__ import annotations

import importlib.metadata
import logging
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from .switches import DECIDING, SWITCHES, VARIABLE, switched_off

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_logger = logging.getLogger(__name__)
# The start of a patch's comment; patchkit.plan.comments, which defines it, may not be imported here.
_SIGNED = re.compile(rb"# patchkit ([\w.-]+): ")
# The call with which a tree's decision about the mirror, upstream's own as well, considers the switches.
_CONSIDERED = re.compile(rb"patchkit_api\.(?:with_switches|spec_v2_backends)\(")


def patches_loaded() -> tuple[str, ...]:
    """Return the patches with comments in the loaded sglang modules of this process, sorted."""
    modules = [module for name, module in tuple(sys.modules.items()) if name.partition(".")[0] == "sglang"]
    files = [Path(str(each.__file__)) for each in modules if getattr(each, "__file__", None)]
    return tuple(sorted({name.decode() for source in _sources(files) for name in _SIGNED.findall(source)}))


def _sources(files: Iterable[Path]) -> Iterator[bytes]:
    for file in files:
        with suppress(OSError):
            yield file.read_bytes()


def warn_of_absent_patches() -> None:
    """Warn, once per process, of patches in ``PATCHKIT_DISABLE`` of which the imported sglang has no code.

    A decision about the mirror that considers the switches obeys them whether upstream or a patch made it.
    """
    package = sys.modules.get("sglang")
    if not switched_off() or package is None:
        return
    found: set[str] = set()
    obeyed: frozenset[str] = frozenset()
    roots = getattr(package, "__path__", ())
    try:
        for source in _sources(file for root in roots for file in Path(root).rglob("*.py")):
            found |= {name.decode() for name in _SIGNED.findall(source)}
            if _CONSIDERED.search(source):
                obeyed = frozenset(DECIDING)
    except OSError:  # A folder vanished.
        return
    # Some patch's code has imported this: without sources nothing is known.
    if not (found or obeyed):
        return
    absent = sorted(name for name in switched_off() - obeyed if name.partition("/")[0] not in found)
    if absent:
        known = sorted({name for name in SWITCHES if name.partition("/")[0] in found} | (obeyed & {"26128"}))
        warn(
            f"{VARIABLE} names {', '.join(absent)}, which changes nothing: this sglang has no code of it. Here the "
            f"variable can turn off {', '.join(known) or 'nothing'}."
        )


def warn(message: str) -> None:
    """Log a warning; each process has its own environment, so each of them does."""
    _logger.warning("patchkit runtime %s: %s", _version(), message)


def _version() -> str:
    try:
        return importlib.metadata.version("sglang-patchkit")
    except importlib.metadata.PackageNotFoundError:
        return "(vendored)"


def report(forced_by: str | None) -> None:
    """Log the decision once per server; ``forced_by`` is the reader that keeps the mirror, None if there is none."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if distributed and torch.distributed.get_rank() != 0:
        return
    kept = "not kept" if forced_by is None else f"kept for {forced_by}"
    off = f"; {VARIABLE}={','.join(sorted(switched_off()))}" if switched_off() else ""
    _logger.info(
        "patchkit runtime %s: the CPU mirror of sequence lengths is %s; patches in the tree: %s%s",
        _version(),
        kept,
        ", ".join(patches_loaded()) or "none",
        off,
    )
