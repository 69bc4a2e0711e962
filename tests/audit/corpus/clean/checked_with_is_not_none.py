# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    if batch.seq_lens_cpu is not None:
        return batch.seq_lens_cpu.sum()
    return 0
