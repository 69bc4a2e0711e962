# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    lens = batch.seq_lens_cpu
    if lens is None:
        return 0
    return batch.seq_lens_cpu.sum()
