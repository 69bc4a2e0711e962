# ruff: noqa
# place: srt/layers/attention/fork_layout.py
from enum import Enum


class Layout(Enum):
    PAGED = 1
    RAGGED = 2


# place: srt/layers/attention/fork_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.attention.fork_layout import Layout
from sglang.srt.model_executor.forward_batch_info import ForwardMode


class ForkBackend(AttentionBackend):
    needs_cpu_seq_lens = False

    def layout(self, forward_mode) -> Layout:
        if self.wide and forward_mode == ForwardMode.EXTEND:
            chosen = Layout.RAGGED
        else:
            chosen = Layout.PAGED
        return chosen

    def forward_extend(self, forward_batch):
        layout = self.layout(forward_batch.forward_mode)
        if layout == Layout.RAGGED:
            return any(forward_batch.extend_prefix_lens_cpu)
        if layout is not Layout.PAGED:
            return len(forward_batch.seq_lens_cpu)
