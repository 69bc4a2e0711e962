"""Facts about sglang: what is None without the CPU mirror, and where, kept apart from the analysis.

They are true for sglang 0.5.11 to 0.5.23: a spec-v2 decode step whose attention backends all opted out runs with
``seq_lens_cpu`` and ``seq_lens_sum`` set to None; a draft-extend step on that path also leaves the two
``extend_*_cpu`` lists unset. A prefill keeps its mirror, so only the steps in :data:`MIRRORLESS_STEPS` can lack it.
"""

from __future__ import annotations

import re

from patchkit.tree import mirror

SPEC_INPUT_ROOT = "SpecInput"
SPEC_WORKER_ROOTS = ("BaseSpecWorker", "BaseDraftWorker", "EagleDraftWorkerBase")
MODE_CLASS = "ForwardMode"

MIRRORLESS_STEPS = ("DECODE", "TARGET_VERIFY", "DRAFT_EXTEND_V2")
"""Forward modes of a spec-v2 decode step; ``DRAFT_EXTEND`` belongs to spec v1 if there is a V2 member."""

DECODE = "DECODE"
WORKER_STEP = "forward_batch_generation"
"""The method of a worker that a scheduler calls. The scheduler passes it only decodes; the worker makes the rest."""

VERIFY = "TARGET_VERIFY"
"""A verify never has extend lists; they are set only for batches that extend a request's cache."""

NO_LISTS = "is unset in every verify"
"""The end of a step's text about such a list. The audit cannot determine whether its reader runs in a verify."""

EXTEND_LENS = frozenset({"extend_seq_lens", "extend_prefix_lens"})
"""The device tensors of a batch that extends a request's cache, a draft-extend's too, with the mirror and without."""

BATCH_NAME = re.compile(r"(?:^|_)(?:batch|fb|mwb)$")
"""A parameter or variable with such a name holds a batch, unless there is better evidence."""

SPEC_INPUT = "spec_info"
"""The attribute that a batch of a speculative step has; every batch without the mirror is one."""

SPEC_INPUT_NAME = re.compile(r"^(?:spec_info|spec_input|(?:\w+_)?(?:verify|draft|draft_extend)_input)$")
BACKEND_NAME = re.compile(r"(?:^|_)(?:backend|backends|backend_list|attn_backends?)$")

ALWAYS_TRUE = frozenset({"enable_overlap", "is_spec_v2", "is_some", "supports_spec_v2"})
"""Attributes and predicates that are true without the mirror: spec v2 runs under the overlap scheduler."""

ALWAYS_FALSE = frozenset({mirror.FLAG})

MODE_NAME = re.compile(r"^(?!global_)(?:\w+_)?forward_mode$")
"""An attribute of a batch that holds its mode; the global one is that of every rank."""

ALGORITHM_NAME = re.compile(r"(?:^|_)(?:spec_algorithm|spec_algo|speculative_algorithm)$")


CAPTURE = re.compile(r"(?:^|_)(?:capture|dummy)(?:_|$)")
"""A function with such a name runs a batch made for a capture, with its mirror."""

PREFILL_METADATA = re.compile(r"(?:^|_)prefill_metadata$")
"""A backend's metadata of a prefill; a backend that clears it in other steps tests it to detect a prefill."""
