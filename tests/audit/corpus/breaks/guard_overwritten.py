# ruff: noqa
# place: srt/managers/example.py
def total(batch, lens):
    if lens is not None:
        lens = batch.seq_lens_cpu
        return lens.sum()  # finds PK101
    return 0
