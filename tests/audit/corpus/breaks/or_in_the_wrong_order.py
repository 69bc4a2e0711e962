# ruff: noqa
# place: srt/managers/example.py
def empty(batch):
    return len(batch.seq_lens_cpu) == 0 or batch.seq_lens_cpu is None  # finds PK106
