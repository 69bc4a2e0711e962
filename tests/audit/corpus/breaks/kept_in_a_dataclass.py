# ruff: noqa
# place: srt/managers/example.py
from dataclasses import dataclass
from typing import List, Optional


@dataclass
class Metadata:
    bs: int
    lens: Optional[List[int]] = None


def build(forward_batch):
    metadata = Metadata(3, forward_batch.seq_lens_cpu)
    return sum(metadata.lens)  # finds PK106
