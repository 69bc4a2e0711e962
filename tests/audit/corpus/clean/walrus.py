# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    if (lens := batch.seq_lens_cpu) is not None:
        return lens.sum()
    return 0
