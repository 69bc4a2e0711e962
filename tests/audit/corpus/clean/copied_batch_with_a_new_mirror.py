# ruff: noqa
# place: srt/managers/example.py
import copy


def plan(batch, lens):
    other = copy.copy(batch)
    other.seq_lens_cpu = lens.cpu()
    return other.seq_lens_cpu.sum()
