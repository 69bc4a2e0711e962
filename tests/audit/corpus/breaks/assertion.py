# ruff: noqa
# place: srt/managers/example.py
def check(forward_batch):
    assert forward_batch.seq_lens_cpu is not None  # finds PK108
    return forward_batch.seq_lens_cpu.max()
