# ruff: noqa
# place: srt/managers/example.py
def clip(logits, forward_batch):
    return logits[: forward_batch.seq_lens_sum]  # finds PK110
