# ruff: noqa
# place: srt/managers/example.py
def plan(batch, values):
    if batch.reqs:
        batch.seq_lens_cpu = values
    there = batch.seq_lens_cpu is not None
    if there:
        return batch.seq_lens_cpu.max()
