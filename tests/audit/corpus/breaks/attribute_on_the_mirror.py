# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    return batch.seq_lens_cpu.sum()  # finds PK101
