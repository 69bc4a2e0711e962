# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    return 0 if batch.seq_lens_cpu is not None else batch.seq_lens_cpu.sum()  # finds PK101
