# ruff: noqa
# place: srt/layers/attention/fork_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class ForkBackend(AttentionBackend):
    needs_cpu_seq_lens = False

    def init_forward_metadata(self, forward_batch, static_forward_batch=None):
        forward_batch.seq_lens_cpu = forward_batch.seq_lens.cpu()
        planned = forward_batch
        if static_forward_batch is not None:
            static_forward_batch.seq_lens_cpu = forward_batch.seq_lens_cpu
            planned = static_forward_batch
        self.longest = planned.seq_lens_cpu.max()
        self.total = (planned if self.fixed else forward_batch).seq_lens_cpu.sum()
