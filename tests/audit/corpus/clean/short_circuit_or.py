# ruff: noqa
# place: srt/managers/example.py
def empty(batch):
    return batch.seq_lens_cpu is None or len(batch.seq_lens_cpu) == 0
