"""What is None without the CPU mirror, and where: names and conditions, kept as data apart from the analysis.

Facts about sglang (0.5.11 to 0.5.23): a spec-v2 decode step whose attention backends all opted out runs with
``seq_lens_cpu`` and ``seq_lens_sum`` set to None; a draft-extend step on that path also leaves the two
``extend_*_cpu`` lists unset. A prefill keeps its mirror, so only the steps named in :data:`MIRRORLESS_STEPS`
can miss it.
"""

from __future__ import annotations

import re

from patchkit.tree import mirror

SPEC_INPUT_ROOT = "SpecInput"
SPEC_WORKER_ROOTS = ("BaseSpecWorker", "BaseDraftWorker", "EagleDraftWorkerBase")
MODE_CLASS = "ForwardMode"

MIRRORLESS_STEPS = ("DECODE", "TARGET_VERIFY", "DRAFT_EXTEND_V2")
"""Forward modes of a spec-v2 decode step; ``DRAFT_EXTEND`` is spec v1's where there is a V2 member."""

DECODE = "DECODE"
WORKER_STEP = "forward_batch_generation"
"""What a scheduler calls of its worker. Of the steps named above its batches are decodes; a worker makes the others."""

VERIFY = "TARGET_VERIFY"
"""A verify has no extend lists, with the mirror or without: they are set for what extends a request's cache."""

NO_LISTS = "is unset in every verify"
"""What a finding's path says of such a list; whether its reader runs in a verify is for a person to tell."""

BATCH_NAME = re.compile(r"(?:^|_)(?:batch|fb|mwb)$")
"""A parameter or variable with such a name, and no better evidence, holds a batch."""

SPEC_INPUT = "spec_info"
"""What a batch of a speculative step has, and a batch without the mirror is one."""

SPEC_INPUT_NAME = re.compile(r"^(?:spec_info|spec_input|(?:\w+_)?(?:verify|draft|draft_extend)_input)$")
BACKEND_NAME = re.compile(r"(?:^|_)(?:backend|backends|backend_list|attn_backends?)$")

ALWAYS_TRUE = frozenset({"enable_overlap", "is_spec_v2", "is_some", "supports_spec_v2"})
"""Attributes and predicates that hold without the mirror: spec v2 runs under the overlap scheduler."""

ALWAYS_FALSE = frozenset({mirror.FLAG})

MODE_NAME = re.compile(r"^(?!global_)(?:\w+_)?forward_mode$")
"""An attribute of a batch that holds its mode, now or as it came; the global one is that of every rank."""

ALGORITHM_NAME = re.compile(r"(?:^|_)(?:spec_algorithm|spec_algo|speculative_algorithm)$")


CAPTURE = re.compile(r"(?:^|_)(?:capture|dummy)(?:_|$)")
"""A function with such a name runs a batch that was made for it, with its mirror."""

PREFILL_METADATA = re.compile(r"(?:^|_)prefill_metadata$")
"""What a backend keeps of a prefill; one that clears it in other steps reads it as a test for a prefill."""
