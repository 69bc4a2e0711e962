# ruff: noqa
# place: srt/managers/example.py
from sglang.srt.model_executor.forward_batch_info import ForwardMode


class Verifier:
    def __init__(self):
        self.forward_mode = ForwardMode.TARGET_VERIFY

    def plan(self, batch):
        if self.forward_mode.is_decode():
            return batch.seq_lens_cpu.max()
