# ruff: noqa
# place: srt/managers/example.py
def long(batch):
    return batch.seq_lens_cpu is not None and batch.seq_lens_cpu.max() > 4
