# place: srt/layers/attention/fork_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class SlowBackend(AttentionBackend):
    def forward_extend(self, forward_batch):
        return sum(forward_batch.extend_prefix_lens_cpu)


class ForkBackend(SlowBackend):
    needs_cpu_seq_lens = False

    def __init__(self):
        self.forward_prefill_metadata = None

    def init_forward_metadata(self, forward_batch):
        if forward_batch.forward_mode.is_target_verify() or forward_batch.forward_mode.is_draft_extend_v2():
            self.forward_prefill_metadata = None
        else:
            self.forward_prefill_metadata = object()

    def forward_extend(self, forward_batch):
        if self.forward_prefill_metadata is not None:
            return super().forward_extend(forward_batch)
        return forward_batch.seq_lens.sum()
