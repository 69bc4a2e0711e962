# ruff: noqa
# place: srt/speculative/fork_worker.py
from sglang.srt.model_executor.forward_batch_info import ForwardBatch


def plan(batch, runner, width):
    gpu_only = batch.seq_lens_cpu is None
    forward_batch = ForwardBatch.init_new(batch, runner)
    if not gpu_only:
        forward_batch.seq_lens_cpu = forward_batch.seq_lens_cpu + width
        forward_batch.seq_lens_sum = int(forward_batch.seq_lens_cpu.sum())
    return forward_batch
