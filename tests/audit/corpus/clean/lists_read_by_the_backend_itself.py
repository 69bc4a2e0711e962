# ruff: noqa
# place: srt/layers/attention/fork_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class ForkBackend(AttentionBackend):
    needs_cpu_seq_lens = True

    def forward_extend(self, forward_batch):
        return sum(forward_batch.extend_prefix_lens_cpu)
