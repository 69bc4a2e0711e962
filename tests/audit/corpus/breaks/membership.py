# ruff: noqa
# place: srt/managers/example.py
def has(batch, length):
    return length in batch.seq_lens_cpu  # finds PK103
