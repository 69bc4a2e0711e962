"""Rows of a shard of an embedding, by torch and by the kernel, beside a walk by hand."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from support.interpreted import interpreted

from patchkit.backends.shard import embed
from patchkit.backends.step_buffers import Shard

# Of other ranks, of none, and what an arithmetic of 32 or 64 bits wraps around.
_ODD = (-(1 << 63), -(1 << 31), -100, -1, 0, (1 << 31) - 1, (1 << 63) - 1)


def shard(hidden: int, *, padding: int = 2, added: int = 3, spare: int = 0) -> Shard:
    """Return a rank's shard of the tokens 7 to 12 and of ``added`` further ones, no two rows of which are equal."""
    rows = 5 + padding + added
    weight = torch.arange(1.0, rows * (hidden + spare) + 1).view(rows, hidden + spare)[:, :hidden]
    return Shard(weight, 7, 12, padding, 40, 40 + added)


def tokens(of: Shard, dtype: torch.dtype) -> torch.Tensor:
    ends = [each + off for each in (of.first, of.end, of.added_first, of.added_end) for off in (-1, 0, 1)]
    limits = torch.iinfo(dtype)
    return torch.tensor([each for each in (*ends, *_ODD) if limits.min <= each <= limits.max], dtype=dtype)


def walked(of: Shard, ids: torch.Tensor) -> list[list[float]]:
    rows = []
    for token in ids.flatten().tolist():
        if of.first <= token < of.end:
            rows.append(of.weight[token - of.first].tolist())
        elif of.added_first <= token < of.added_end:
            rows.append(of.weight[of.end - of.first + of.padding + token - of.added_first].tolist())
        else:
            rows.append([0.0] * of.weight.shape[1])
    return rows


@given(
    st.integers(1, 9),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 2),
    st.sampled_from([torch.int32, torch.int64]),
)
def test_torch_finds_what_a_walk_finds(
    hidden: int, padding: int, added: int, spare: int, dtype: torch.dtype
) -> None:
    of = shard(hidden, padding=padding, added=added, spare=spare)
    ids = tokens(of, dtype)
    assert embed(of, ids).tolist() == walked(of, ids)


def test_tokens_of_several_dimensions_and_no_tokens_have_rows() -> None:
    of = shard(4)
    assert embed(of, torch.tensor([[7, 8], [0, 41]])).shape == (2, 2, 4)
    assert embed(of, torch.empty(0, dtype=torch.int64)).shape == (0, 4)


_INTERPRETED = """
import torch
from patchkit.backends import shard_kernel
from backends.test_shard import shard, tokens, walked
for block in (4, 1024):
    shard_kernel._BLOCK = block
    for hidden, spare in ((1, 0), (4, 0), (7, 3)):
        for added in (0, 3):
            for dtype in (torch.int32, torch.int64):
                of = shard(hidden, added=added, spare=spare)
                ids = tokens(of, dtype)
                # As every second one of a buffer's.
                apart = ids.repeat_interleave(2)[::2]
                for given in (ids, apart):
                    assert shard_kernel.embed_by_kernel(of, given).tolist() == walked(of, ids)
assert shard_kernel.embed_by_kernel(shard(4), torch.empty(0, dtype=torch.int64)).shape == (0, 4)
assert shard_kernel.embed_by_kernel(shard(4), torch.tensor([[7, 8], [0, 41]])).shape == (2, 2, 4)
print("equal")
"""


def test_the_kernel_finds_what_a_walk_finds() -> None:
    assert interpreted(_INTERPRETED) == "equal\n"
