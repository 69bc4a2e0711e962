# ruff: noqa
# place: srt/managers/example.py
import torch


def plan(batch):
    fill(batch)
    return batch.seq_lens_cpu.sum()


def fill(batch):
    batch.seq_lens_cpu = torch.ones(3)
