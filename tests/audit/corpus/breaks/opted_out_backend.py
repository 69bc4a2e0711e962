# ruff: noqa
# place: srt/layers/attention/fast_backend.py
import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class FastBackend(AttentionBackend):
    needs_cpu_seq_lens = False

    def init_forward_metadata(self, forward_batch):
        if forward_batch.forward_mode.is_decode_or_idle():
            self.room = None
        elif forward_batch.forward_mode.is_target_verify():
            self.room = torch.empty(forward_batch.seq_lens_sum)  # finds PK107 certain
        else:
            self.room = sum(forward_batch.extend_prefix_lens_cpu)  # finds PK106 certain
            self.width = max(forward_batch.extend_seq_lens_cpu)  # finds PK106 certain
