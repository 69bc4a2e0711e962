# ruff: noqa
# place: srt/managers/example.py
def check(forward_batch):
    assert isinstance(forward_batch.seq_lens_cpu, list)  # finds PK108
