# ruff: noqa
# place: srt/layers/attention/fast_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class FastBackend(AttentionBackend):
    needs_cpu_seq_lens = False

    def init_forward_metadata(self, forward_batch):
        if self.needs_cpu_seq_lens:
            self.longest = forward_batch.seq_lens_cpu.max()
