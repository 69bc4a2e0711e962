# ruff: noqa
# place: srt/layers/attention/slow_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class SlowBackend(AttentionBackend):
    def init_forward_metadata(self, forward_batch):
        self.longest = self.bound(forward_batch)

    def bound(self, forward_batch):
        return forward_batch.seq_lens_cpu.max()


# place: srt/layers/attention/fast_backend.py
from sglang.srt.layers.attention.slow_backend import SlowBackend


class FastBackend(SlowBackend):
    needs_cpu_seq_lens = False

    def bound(self, forward_batch):
        return forward_batch.batch_size * 4096
