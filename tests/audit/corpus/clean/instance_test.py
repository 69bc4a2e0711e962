# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    if isinstance(batch.seq_lens_cpu, list):
        return sum(batch.seq_lens_cpu)
    return 0
