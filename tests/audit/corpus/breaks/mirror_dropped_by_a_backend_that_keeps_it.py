# ruff: noqa
# place: srt/layers/attention/fork_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class ForkBackend(AttentionBackend):
    def init_forward_metadata(self, forward_batch):
        forward_batch.seq_lens_cpu = None
        self.plan(forward_batch)

    def plan(self, forward_batch):
        return forward_batch.seq_lens_cpu.max()  # finds PK101
