# ruff: noqa
# place: srt/managers/example.py
from sglang.srt.model_executor.forward_batch_info import ForwardMode


def split(forward_batch):
    if forward_batch.forward_mode == ForwardMode.EXTEND:
        return sum(forward_batch.seq_lens_cpu)
    return None
