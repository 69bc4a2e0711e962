# ruff: noqa
# place: srt/managers/example.py
def plan(batch):
    return mirror_of(batch).sum()  # finds PK101


def mirror_of(batch):
    return batch.seq_lens_cpu
