# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    lens = batch.seq_lens_cpu
    other = lens
    return other.sum()  # finds PK101
