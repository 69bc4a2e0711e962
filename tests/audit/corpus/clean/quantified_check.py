# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    if all(value is not None for value in (batch.seq_lens_cpu, batch.seq_lens_sum)):
        return batch.seq_lens_cpu.sum() + batch.seq_lens_sum
    return 0
