# ruff: noqa
# place: srt/managers/example.py
def total(batch, other):
    if None not in (batch.seq_lens_cpu, other):
        return batch.seq_lens_cpu.sum()
    return 0
