# ruff: noqa
# place: srt/managers/example.py
def first(batch):
    return batch.seq_lens_cpu[0]  # finds PK102
