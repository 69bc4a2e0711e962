# ruff: noqa
# place: srt/models/fork_model.py
from sglang.srt.model_executor.forward_context import get_attn_backend


def capture_chunks(own_forward_batch):
    if own_forward_batch.extend_prefix_lens_cpu is not None:
        get_attn_backend().plan_chunks(own_forward_batch)


# place: srt/layers/attention/fork_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class ForkBackend(AttentionBackend):
    needs_cpu_seq_lens = False

    def plan_chunks(self, own_forward_batch):
        return any(own_forward_batch.extend_prefix_lens_cpu)  # finds PK106
