# ruff: noqa
# place: srt/managers/example.py
import torch


def both(forward_batch, other):
    return torch.cat([other, forward_batch.seq_lens_cpu])  # finds PK107
