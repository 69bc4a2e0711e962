# ruff: noqa
# place: srt/managers/decision.py
def fork_needs_cpu_seq_lens(attn_backends):
    return any(b.needs_cpu_seq_lens for b in attn_backends)  # finds PK111


# place: srt/speculative/fork_worker.py
from sglang.srt.speculative.base_spec_worker import BaseSpecWorker


class ForkWorker(BaseSpecWorker):
    """Its slots decide about seq_lens_cpu."""

    @property
    def spec_v2_attn_backends(self):
        return (self.target.attn_backend, self._draft.draft_extend_attn_backend)
