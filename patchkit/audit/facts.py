"""What is None without the CPU mirror, and where: names and conditions, kept as data apart from the analysis.

Facts about sglang (0.5.11 to 0.5.23): a spec-v2 decode step whose attention backends all opted out runs with
``seq_lens_cpu`` and ``seq_lens_sum`` set to None; a draft-extend step on that path also leaves the two
``extend_*_cpu`` lists unset. A prefill keeps its mirror, so only the steps named in :data:`MIRRORLESS_STEPS`
can miss it.
"""

from __future__ import annotations

import re

PACKAGE_FOLDER = "srt"
VENDORED_RUNTIME = "_patchkit"
RUNTIME = "patchkit/runtime"
"""Where patched code finds what it calls: inside the package folder, or installed beside it."""

FLAG = "needs_cpu_seq_lens"

MIRROR = ("seq_lens_cpu", "seq_lens_sum")
EXTEND_MIRROR = ("extend_seq_lens_cpu", "extend_prefix_lens_cpu")
TRACKED = frozenset(MIRROR + EXTEND_MIRROR)

BATCH_CLASSES = frozenset({"ScheduleBatch", "ModelWorkerBatch", "ForwardBatch"})
"""Classes whose instances carry the mirror of one step."""

SPEC_INPUT_ROOT = "SpecInput"
BACKEND_ROOT = "AttentionBackend"
SPEC_WORKER_ROOTS = ("BaseSpecWorker", "BaseDraftWorker")
MODE_CLASS = "ForwardMode"

MIRRORLESS_STEPS = ("DECODE", "TARGET_VERIFY", "DRAFT_EXTEND_V2")
"""Forward modes of a spec-v2 decode step; ``DRAFT_EXTEND`` is spec v1's where there is a V2 member."""

BATCH_NAME = re.compile(r"(?:^|_)(?:batch|fb|mwb)$")
"""A parameter or variable with such a name, and no better evidence, holds a batch."""

SPEC_INPUT_NAME = re.compile(r"^(?:spec_info|spec_input|(?:\w+_)?(?:verify|draft|draft_extend)_input)$")
BACKEND_NAME = re.compile(r"(?:^|_)(?:backend|backends|backend_list|attn_backends?)$")

ALWAYS_TRUE = frozenset({"enable_overlap", "is_spec_v2", "is_some", "supports_spec_v2"})
"""Attributes and predicates that hold without the mirror: spec v2 runs under the overlap scheduler."""

ALWAYS_FALSE = frozenset({FLAG})

ALGORITHM_NAME = re.compile(r"(?:^|_)(?:spec_algorithm|spec_algo|speculative_algorithm)$")


CAPTURE = re.compile(r"(?:^|_)(?:capture|dummy)(?:_|$)")
"""A function with such a name runs a batch that was made for it, with its mirror."""


def tracked_pattern() -> re.Pattern[bytes]:
    """Return a pattern of the files that matter: they name the mirror, the flag or the runtime."""
    names = "|".join(sorted(TRACKED | {FLAG}))
    return re.compile(rf"\b(?:{names})\b|\bpatchkit\.runtime\b|\b_patchkit\b".encode())
