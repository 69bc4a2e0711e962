# ruff: noqa
# place: srt/managers/example.py
def wait(batch, poll):
    lens = batch.seq_lens_cpu
    while lens is None:
        lens = poll()
    return lens.sum()
