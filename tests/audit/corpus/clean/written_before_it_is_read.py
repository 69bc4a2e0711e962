# ruff: noqa
# place: srt/managers/example.py
import torch


def prepare(batch, lens):
    batch.seq_lens_cpu = torch.tensor(lens)
    batch.seq_lens_sum = int(batch.seq_lens_cpu.sum())
