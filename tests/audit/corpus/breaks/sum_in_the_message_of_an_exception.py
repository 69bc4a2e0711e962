# ruff: noqa
# place: srt/managers/example.py
def refuse(batch):
    raise ValueError(batch.seq_lens_sum + 1)  # finds PK104
