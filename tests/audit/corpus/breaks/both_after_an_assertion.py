# ruff: noqa
# place: srt/managers/example.py
def check(batch):
    assert batch.seq_lens_cpu is not None  # finds PK108
    return batch.seq_lens_sum + 1  # finds PK104
