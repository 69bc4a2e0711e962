# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    lens = getattr(batch, "seq_lens_cpu", None)
    return 0 if lens is None else lens.sum()
