# ruff: noqa
# place: srt/managers/example.py
def plan(batch):
    return outer(1, lens=batch.seq_lens_cpu)


def outer(scale, lens=None):
    return inner(lens) * scale


def inner(values):
    return max(values)  # finds PK106
