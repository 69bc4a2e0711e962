# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    if batch.seq_lens_cpu is None:
        raise ValueError("lengths are on the device only")
    return batch.seq_lens_cpu.sum()
