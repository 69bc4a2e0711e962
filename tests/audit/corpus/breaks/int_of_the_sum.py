# ruff: noqa
# place: srt/managers/example.py
def as_int(batch):
    return int(batch.seq_lens_sum)  # finds PK106
