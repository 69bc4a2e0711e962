"""One line in a server's log says what was decided about the mirror, by whom, and what is in the tree."""

from __future__ import annotations

import importlib.metadata
import logging
import re
import sys
from contextlib import suppress
from pathlib import Path

import torch

from .switches import VARIABLE, switched_off

_logger = logging.getLogger(__name__)
# What a patch's comment starts with: nothing that patches is there where a server runs.
_SIGNED = re.compile(rb"# patchkit ([\w.-]+): ")


def patches_loaded() -> tuple[str, ...]:
    """Return the patches whose marks the sources of this process's sglang modules bear, sorted."""
    found: set[str] = set()
    for name, module in tuple(sys.modules.items()):
        if name.partition(".")[0] == "sglang" and getattr(module, "__file__", None):
            with suppress(OSError):
                source = Path(str(module.__file__)).read_bytes()
                found |= {name.decode() for name in _SIGNED.findall(source)}
    return tuple(sorted(found))


def _version() -> str:
    try:
        return importlib.metadata.version("sglang-patchkit")
    except importlib.metadata.PackageNotFoundError:
        return "of no installed package"


def report(forced_by: str | None) -> None:
    """Log the decision, once a server: ``forced_by`` says who keeps the mirror, None that nobody does."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if distributed and torch.distributed.get_rank() != 0:
        return
    kept = "not kept" if forced_by is None else f"kept for {forced_by}"
    off = f"; {VARIABLE} turns off {', '.join(sorted(switched_off()))}" if switched_off() else ""
    _logger.info(
        "patchkit runtime %s: the CPU mirror of sequence lengths is %s; patches in the tree: %s%s",
        _version(),
        kept,
        ", ".join(patches_loaded()) or "none",
        off,
    )
