# ruff: noqa
# place: srt/speculative/fork_worker.py
import torch
from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode
from sglang.srt.managers.schedule_batch import ScheduleBatch


def prepare(batch: ScheduleBatch, runner, width):
    batch.extend_lens = torch.full((4,), width)
    batch.forward_mode = ForwardMode.DRAFT_EXTEND_V2
    forward_batch = ForwardBatch.init_new(batch, runner)
    return max(forward_batch.extend_seq_lens_cpu)  # finds PK106 certain
