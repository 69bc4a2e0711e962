# place: srt/layers/attention/fork_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class SlowBackend(AttentionBackend):
    def forward_extend(self, forward_batch):
        return sum(forward_batch.extend_prefix_lens_cpu)  # finds PK106


class ForkBackend(SlowBackend):
    needs_cpu_seq_lens = False

    def __init__(self):
        self.forward_prefill_metadata = None

    def init_forward_metadata(self, forward_batch):
        self.forward_prefill_metadata = object()

    def forward_extend(self, forward_batch):
        if self.forward_prefill_metadata is not None:
            return super().forward_extend(forward_batch)
        return forward_batch.seq_lens.sum()
