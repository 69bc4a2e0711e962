"""Log once per server whether the mirror is kept, which backends read it, and the patches in the tree."""

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
# The start of a patch's comment; patchkit.plan.comments, which defines it, may not be imported here.
_SIGNED = re.compile(rb"# patchkit ([\w.-]+): ")


def patches_loaded() -> tuple[str, ...]:
    """Return the patches with comments in the loaded sglang modules of this process, sorted."""
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
        return "(vendored)"


def report(forced_by: str | None) -> None:
    """Log the decision once per server; ``forced_by`` is the reader that keeps the mirror, None if there is none."""
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
