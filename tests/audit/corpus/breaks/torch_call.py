# ruff: noqa
# place: srt/managers/example.py
import torch


def room(forward_batch):
    return torch.empty(forward_batch.seq_lens_sum, dtype=torch.int64)  # finds PK107
