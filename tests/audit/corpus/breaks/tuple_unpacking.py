# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    lens, count = batch.seq_lens_cpu, 3
    return lens.sum() + count  # finds PK101
