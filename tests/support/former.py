"""The first place of the overlap hook's check: the workers' constructors, too early for later releases."""

from __future__ import annotations

_START = '''
[edit.start]
kind = "insert-after"
why = "say so now rather than in the middle of a verify; a disaggregated prefill server never verifies"
sites = [
    "srt/speculative/eagle_worker_v2.py::EAGLEWorkerV2.__init__",
    { at = "srt/speculative/multi_layer_eagle_worker_v2.py::MultiLayerEagleWorkerV2.__init__", optional = "-" },
    { at = "srt/speculative/standalone_worker_v2.py::StandaloneWorkerV2.__init__", optional = "-" },
    { at = "srt/speculative/frozen_kv_mtp_worker_v2.py::FrozenKVMTPWorkerV2.__init__", optional = "-" },
]
find = "self.plan_stream, self.plan_stream_ctx = $streams"
code = """
if self.server_args.disaggregation_mode != "prefill":
    CALLED(self.plan_stream, self._target_worker.model_runner.attn_backend)
"""
'''
CHECK = "patchkit_api.require_overlap_hook"


def start(called: str = CHECK) -> str:
    """Return an edit, as patch-file text, that calls a function, by default the check, at the check's first place."""
    return _START.replace("CALLED", called)
