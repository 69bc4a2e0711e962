# ruff: noqa
# place: srt/managers/example.py
def total(batch, other):
    if other is not None:
        return batch.seq_lens_cpu.sum()  # finds PK101
    return 0
