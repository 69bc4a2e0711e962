# ruff: noqa
# place: srt/managers/example.py
def plan(batch):
    if batch.seq_lens_cpu is not None:
        return longest(batch.seq_lens_cpu)
    return 0


def longest(values):
    return values.max()
