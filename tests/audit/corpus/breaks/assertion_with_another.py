# ruff: noqa
# place: srt/managers/example.py
def check(forward_batch, rows):
    assert rows and forward_batch.seq_lens_cpu is not None  # finds PK108
