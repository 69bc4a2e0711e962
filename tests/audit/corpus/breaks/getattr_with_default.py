# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    lens = getattr(batch, "seq_lens_cpu", None)
    return lens.sum()  # finds PK101
