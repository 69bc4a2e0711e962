# ruff: noqa
# place: srt/managers/example.py
from sglang.srt.managers.lengths import longest


def plan(batch):
    return longest(batch.seq_lens_cpu)


# place: srt/managers/lengths.py
def longest(values):
    return values.max()  # finds PK101
