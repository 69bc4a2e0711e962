# ruff: noqa
# place: srt/managers/example.py
def is_empty(batch):
    if batch.seq_lens_sum == 0:  # finds PK105
        return True
    return False
