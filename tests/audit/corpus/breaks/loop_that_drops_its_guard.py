# ruff: noqa
# place: srt/managers/example.py
def total(batches, batch):
    lens = [1]
    for _ in batches:
        lens = batch.seq_lens_cpu
    return sum(lens)  # finds PK106
