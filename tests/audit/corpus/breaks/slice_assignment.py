# ruff: noqa
# place: srt/managers/example.py
def fill(buffer, forward_batch, bs):
    buffer[:bs] = forward_batch.seq_lens_cpu  # finds PK109
