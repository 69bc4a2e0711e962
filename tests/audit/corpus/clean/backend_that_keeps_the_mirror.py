# ruff: noqa
# place: srt/layers/attention/slow_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class SlowBackend(AttentionBackend):
    def init_forward_metadata(self, forward_batch):
        self.longest = forward_batch.seq_lens_cpu.max()
