# ruff: noqa
# place: srt/managers/example.py
def lengths(batch):
    return [int(length) for length in batch.seq_lens_cpu]  # finds PK103
