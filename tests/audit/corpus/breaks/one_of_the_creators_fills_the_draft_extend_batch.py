# ruff: noqa
# place: srt/speculative/fork_worker.py
import torch
from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode
from sglang.srt.managers.schedule_batch import ScheduleBatch


def prepare(batch: ScheduleBatch, runner, width):
    batch.extend_lens = torch.full((4,), width)
    batch.forward_mode = ForwardMode.DRAFT_EXTEND_V2
    forward_batch = ForwardBatch.init_new(batch, runner)
    forward_batch.extend_seq_lens_cpu = [width] * 4
    return forward_batch


def prepare_layers(batch: ScheduleBatch, runner, width):
    batch.extend_lens = torch.full((4,), width)
    batch.forward_mode = ForwardMode.DRAFT_EXTEND_V2
    forward_batch = ForwardBatch.init_new(batch, runner)
    return forward_batch


# place: srt/layers/attention/fast_backend.py
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend


class FastBackend(AttentionBackend):
    needs_cpu_seq_lens = False

    def init_forward_metadata(self, forward_batch):
        if forward_batch.forward_mode.is_draft_extend(include_v2=True):
            self.width = max(forward_batch.extend_seq_lens_cpu)  # finds PK106
