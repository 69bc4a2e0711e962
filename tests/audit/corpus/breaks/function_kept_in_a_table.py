# ruff: noqa
# place: srt/managers/example.py
def total(batch):
    return batch.seq_lens_sum + 1  # finds PK104 possible


TOTALS = {"seq_lens_sum": total}
