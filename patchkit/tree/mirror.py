"""The names in sglang's source for the CPU mirror of sequence lengths and for the opt-out from it."""

from __future__ import annotations

import re
from functools import cache, lru_cache

FLAG = "needs_cpu_seq_lens"
"""The attribute that an attention backend sets to False if it can run without the mirror."""

MIRROR = ("seq_lens_cpu", "seq_lens_sum")
EXTEND_MIRROR = ("extend_seq_lens_cpu", "extend_prefix_lens_cpu")
TRACKED = frozenset(MIRROR + EXTEND_MIRROR)

_SIGNS = (*(name.encode() for name in (*MIRROR, *EXTEND_MIRROR, FLAG)), b"patchkit")

BATCH_CLASSES = frozenset({"ScheduleBatch", "ModelWorkerBatch", "ForwardBatch"})
"""Classes whose instances have the mirror of one step."""

BACKEND_ROOT = "AttentionBackend"
RUNTIME = "patchkit.runtime"
"""The package that patched code imports, unless the runtime is vendored."""


@lru_cache(maxsize=4096)
def names(text: bytes) -> bool:
    """Return whether a file names the mirror, the flag or the runtime."""
    return any(sign in text for sign in _SIGNS) and _names().search(text) is not None


@cache
def _names() -> re.Pattern[bytes]:
    names = "|".join(sorted(TRACKED | {FLAG}))
    return re.compile(rf"\b(?:{names})\b|\bpatchkit\.runtime\b|\b_patchkit\b".encode())


def decides(text: bytes) -> bool:
    """Return whether a file reads or makes the decision about the mirror."""
    return re.search(rf"\b\w+_{FLAG}\b".encode(), text) is not None
