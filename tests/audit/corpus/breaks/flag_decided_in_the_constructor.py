# ruff: noqa
# place: srt/layers/attention/hybrid_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class HybridBackend(AttentionBackend):
    def __init__(self, inner):
        self.needs_cpu_seq_lens = inner.needs_cpu_seq_lens

    def init_forward_metadata(self, forward_batch):
        return forward_batch.seq_lens_cpu.max()  # finds PK101
