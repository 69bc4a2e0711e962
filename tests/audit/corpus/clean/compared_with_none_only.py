# ruff: noqa
# place: srt/managers/example.py
def has(batch):
    return batch.seq_lens_cpu is None
