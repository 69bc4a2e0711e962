# ruff: noqa
from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass
class ScheduleBatch:
    reqs: list
    forward_mode: object = None
    seq_lens: torch.Tensor = None
    seq_lens_cpu: torch.Tensor = None
    seq_lens_sum: int = None
    spec_algorithm: object = None
    spec_info: object = None
    extend_lens: list = None
    prefix_lens: list = None
