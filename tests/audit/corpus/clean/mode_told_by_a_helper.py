# ruff: noqa
# place: srt/layers/attention/fork_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.model_executor.forward_batch_info import ForwardMode


def logical_mode(forward_batch) -> ForwardMode:
    return getattr(forward_batch, "_original_forward_mode", None) or forward_batch.forward_mode


class ForkBackend(AttentionBackend):
    needs_cpu_seq_lens = False

    def init_forward_metadata(self, forward_batch):
        mode = logical_mode(forward_batch)
        if mode.is_decode() or mode.is_target_verify() or mode == ForwardMode.DRAFT_EXTEND_V2:
            return
        assert forward_batch.seq_lens_cpu is not None
