# ruff: noqa
# place: srt/managers/decision.py
def fork_needs_cpu_seq_lens(attn_backends):
    for backend in attn_backends:
        if backend is None:
            continue
        if backend.needs_cpu_seq_lens:
            return True
    return False


# place: srt/speculative/fork_worker.py
from sglang.srt.speculative.base_spec_worker import BaseSpecWorker


class ForkWorker(BaseSpecWorker):
    """Its slots decide about seq_lens_cpu."""

    @property
    def spec_v2_attn_backends(self):
        return (self.target.attn_backend, self._draft.draft_extend_attn_backend)
