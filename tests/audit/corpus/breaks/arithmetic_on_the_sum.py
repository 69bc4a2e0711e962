# ruff: noqa
# place: srt/managers/example.py
def padded(batch, extra):
    return batch.seq_lens_sum + extra  # finds PK104
