# ruff: noqa
# place: srt/managers/example.py
def plan(batch, number):
    lens = [1] * number
    if not isinstance(lens, list):
        return batch.seq_lens_cpu.max()
