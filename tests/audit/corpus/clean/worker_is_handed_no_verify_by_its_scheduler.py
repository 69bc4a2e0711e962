# ruff: noqa
# place: srt/speculative/fork_worker.py
from sglang.srt.speculative.base_spec_worker import BaseSpecWorker


class ForkWorker(BaseSpecWorker):
    def forward_batch_generation(self, batch):
        if batch.forward_mode.is_target_verify():
            return batch.seq_lens_cpu.max()
