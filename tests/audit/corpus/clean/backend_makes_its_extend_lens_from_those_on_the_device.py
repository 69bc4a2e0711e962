# ruff: noqa
# place: srt/layers/attention/fast_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class FastBackend(AttentionBackend):
    needs_cpu_seq_lens = False

    def init_forward_metadata(self, forward_batch):
        if forward_batch.extend_seq_lens is not None and forward_batch.extend_seq_lens_cpu is None:
            forward_batch.extend_seq_lens_cpu = [4] * forward_batch.batch_size
        if forward_batch.forward_mode.is_draft_extend(include_v2=True):
            self.width = max(forward_batch.extend_seq_lens_cpu)
