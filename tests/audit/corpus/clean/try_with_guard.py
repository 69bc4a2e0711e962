# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    try:
        if batch.seq_lens_cpu is None:
            return 0
        return batch.seq_lens_cpu.sum()
    except RuntimeError:
        return 0
