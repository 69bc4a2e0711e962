# ruff: noqa
# place: srt/managers/example.py
def plan(batch):
    return longest(batch.seq_lens_cpu)


def longest(values):
    if values is None:
        return 0
    return values.max()
