# ruff: noqa
# place: srt/managers/example.py
def lengths(batch):
    found = []
    for length in batch.seq_lens_cpu:  # finds PK103
        found.append(int(length))
    return found
