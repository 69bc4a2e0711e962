# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    try:
        return batch.seq_lens_cpu.sum()  # finds PK101
    finally:
        batch.done = True
