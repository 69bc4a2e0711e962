# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    if batch.seq_lens_cpu is None:
        return 0
    return batch.seq_lens_cpu.sum()
