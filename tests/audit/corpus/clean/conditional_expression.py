# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    return int(batch.seq_lens_cpu.sum()) if batch.seq_lens_cpu is not None else None
