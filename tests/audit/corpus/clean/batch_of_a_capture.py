# ruff: noqa
# place: srt/layers/attention/fork_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class ForkBackend(AttentionBackend):
    needs_cpu_seq_lens = False

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        if in_capture:
            self.longest = forward_batch.seq_lens_cpu.max()
