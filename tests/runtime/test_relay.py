"""Lengths that one step hands to the next without the future map's rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from patchkit.runtime.relay import keep_lens, kept_lens


def test_a_map_that_does_not_say_whether_the_host_reads_its_rows_has_them_written() -> None:
    future_map: Any = SimpleNamespace(new_seq_lens_buf=torch.zeros(4, dtype=torch.int64))
    rows = torch.tensor([1, 3])
    keep_lens(future_map, rows, torch.tensor([5, 7]))
    assert future_map.new_seq_lens_buf.tolist() == [0, 5, 0, 7]
    assert kept_lens(future_map, rows).tolist() == [5, 7]
