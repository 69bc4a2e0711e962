# ruff: noqa
from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto
from typing import List, Optional

import torch


class ForwardMode(IntEnum):
    EXTEND = auto()
    DECODE = auto()
    MIXED = auto()
    IDLE = auto()
    TARGET_VERIFY = auto()
    DRAFT_EXTEND = auto()
    DRAFT_EXTEND_V2 = auto()

    def is_decode(self):
        return self == ForwardMode.DECODE

    def is_idle(self):
        return self == ForwardMode.IDLE

    def is_decode_or_idle(self):
        return self.is_decode() or self == ForwardMode.IDLE

    def is_target_verify(self):
        return self == ForwardMode.TARGET_VERIFY

    def is_draft_extend(self, include_v2: bool = False):
        return self == ForwardMode.DRAFT_EXTEND or (include_v2 and self == ForwardMode.DRAFT_EXTEND_V2)

    def is_extend(self, include_draft_extend_v2: bool = False):
        return self in (ForwardMode.EXTEND, ForwardMode.MIXED, ForwardMode.TARGET_VERIFY) or (
            include_draft_extend_v2 and self == ForwardMode.DRAFT_EXTEND_V2
        )


@dataclass
class ForwardBatch:
    forward_mode: ForwardMode
    batch_size: int
    seq_lens: torch.Tensor
    seq_lens_sum: int
    seq_lens_cpu: Optional[torch.Tensor] = None
    extend_seq_lens: Optional[torch.Tensor] = None
    extend_prefix_lens_cpu: Optional[List[int]] = None
    extend_seq_lens_cpu: Optional[List[int]] = None
    spec_info: object = None

    @classmethod
    def init_new(cls, batch, model_runner):
        made = cls(
            forward_mode=batch.forward_mode,
            batch_size=len(batch.seq_lens),
            seq_lens=batch.seq_lens,
            seq_lens_sum=batch.seq_lens_sum,
            seq_lens_cpu=batch.seq_lens_cpu,
            spec_info=batch.spec_info,
        )
        if not made.forward_mode.is_decode():
            if isinstance(batch.extend_lens, list):
                made.extend_seq_lens_cpu = batch.extend_lens
                made.extend_prefix_lens_cpu = batch.prefix_lens
            else:
                made.extend_seq_lens = batch.extend_lens
        return made
