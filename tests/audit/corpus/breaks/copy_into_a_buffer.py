# ruff: noqa
# place: srt/managers/example.py
def fill(buffers, forward_batch, bs):
    buffers.lens[:bs].copy_(forward_batch.seq_lens_cpu)  # finds PK109
