from __future__ import annotations

from types import SimpleNamespace

import torch
from hypothesis import given
from hypothesis import strategies as st

from patchkit.runtime.metrics import decode_seq_lens, decode_total_seq_lens

LENS = st.lists(st.integers(0, 200_000), max_size=16)


def with_mirror(lens: list[int]) -> SimpleNamespace:
    """A batch whose requests must not be asked: only the mirror is there."""
    return SimpleNamespace(seq_lens_cpu=torch.tensor(lens, dtype=torch.int64))


def without_mirror(lens: list[int]) -> SimpleNamespace:
    """A batch whose device lengths must not be asked: only the requests are there."""
    return SimpleNamespace(seq_lens_cpu=None, reqs=[SimpleNamespace(seqlen=length) for length in lens])


@given(LENS)
def test_totals_agree_with_and_without_the_mirror(lens: list[int]) -> None:
    totals = [decode_total_seq_lens(batch) for batch in (with_mirror(lens), without_mirror(lens))]
    assert totals == [sum(lens), sum(lens)]
    assert [type(total) for total in totals] == [int, int]


@given(LENS)
def test_each_requests_length_agrees_with_and_without_the_mirror(lens: list[int]) -> None:
    mirrored, unmirrored = decode_seq_lens(with_mirror(lens)), decode_seq_lens(without_mirror(lens))
    assert [int(length) for length in mirrored] == [int(length) for length in unmirrored] == lens
