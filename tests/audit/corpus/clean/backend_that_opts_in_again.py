# ruff: noqa
# place: srt/layers/attention/fast_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class FastBackend(AttentionBackend):
    needs_cpu_seq_lens = False

    def init_forward_metadata(self, forward_batch):
        self.total = forward_batch.batch_size


# place: srt/layers/attention/exact_backend.py
from sglang.srt.layers.attention.fast_backend import FastBackend


class ExactBackend(FastBackend):
    needs_cpu_seq_lens = True

    def init_forward_metadata(self, forward_batch):
        self.total = forward_batch.seq_lens_cpu.max()
