# ruff: noqa
# place: srt/managers/example.py
def plan(batch, width):
    gpu_only = batch.seq_lens_cpu is None
    if gpu_only:
        prefix = batch.seq_lens
    else:
        prefix = batch.seq_lens_cpu.tolist()
    return prefix
