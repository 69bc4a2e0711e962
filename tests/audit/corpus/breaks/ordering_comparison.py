# ruff: noqa
# place: srt/managers/example.py
def too_long(batch, limit):
    return batch.seq_lens_sum > limit  # finds PK105
