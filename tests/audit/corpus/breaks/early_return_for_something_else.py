# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    if not batch.reqs:
        return 0
    return batch.seq_lens_cpu.sum()  # finds PK101
