# ruff: noqa
# place: srt/managers/example.py
def plan(batch, extra):
    drop(batch)
    return batch.seq_lens_sum + extra  # finds PK104


def drop(batch):
    batch.seq_lens_sum = None
