# ruff: noqa
# place: srt/managers/example.py
def size(batch):
    return len(batch.seq_lens_cpu)  # finds PK106
