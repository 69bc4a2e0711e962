# ruff: noqa
# place: srt/managers/fork_adapter.py
from sglang.srt.model_executor.forward_batch_info import ForwardMode


def as_prefill(batch):
    if batch.forward_mode.is_decode() and batch.may_be_a_prefill:
        batch.forward_mode = ForwardMode.EXTEND
        batch.extend_lens = batch.seq_lens_cpu.tolist()  # finds PK101 likely
