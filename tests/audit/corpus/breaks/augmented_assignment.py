# ruff: noqa
# place: srt/managers/example.py
def advance(batch, accepted):
    batch.seq_lens_sum += accepted  # finds PK104
