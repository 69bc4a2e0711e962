from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from patchkit.backends.draft_extend import fill_draft_extend_v2

SIZES = (1, 2, 7, 64)
STRIDES = (1, 2, 5)
DIRT = 77


def filled(stride: int, accepted: list[int], size: int) -> SimpleNamespace:
    """Return metadata whose buffers still hold what an earlier replay left."""
    offsets = torch.full((size + 1,), DIRT, dtype=torch.int32)
    offsets[0] = 0
    metadata = SimpleNamespace(max_seq_len_q=DIRT, cu_seqlens_q=offsets)
    fill_draft_extend_v2(metadata, stride, torch.tensor(accepted, dtype=torch.int32), size)
    return metadata


def reference(stride: int, size: int) -> list[int]:
    return [request * stride for request in range(size + 1)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("stride", STRIDES)
def test_query_offsets_are_one_stride_apart(size: int, stride: int) -> None:
    metadata = filled(stride, [9] * size, size)
    assert metadata.cu_seqlens_q.tolist() == reference(stride, size)
    assert metadata.max_seq_len_q == stride


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("unset", [0, -1])
def test_a_stride_unset_at_capture_is_inferred_from_the_capture_buffers(size: int, unset: int) -> None:
    metadata = filled(unset, [4] * size, size)
    assert metadata.cu_seqlens_q.tolist() == reference(4, size)
    assert metadata.max_seq_len_q == 4
    assert type(metadata.max_seq_len_q) is int


def test_inference_looks_only_at_the_requests_of_the_graph() -> None:
    assert filled(0, [3, 3, 9, 9], 2).max_seq_len_q == 3


def test_what_each_request_accepted_does_not_matter_in_v2() -> None:
    assert filled(4, [1, 4, 2], 3).cu_seqlens_q.tolist() == filled(4, [4, 4, 4], 3).cu_seqlens_q.tolist()


def test_offsets_are_written_where_the_graph_reads_them() -> None:
    buffer = torch.full((9,), DIRT, dtype=torch.int32)
    buffer[0] = 0
    metadata = SimpleNamespace(max_seq_len_q=0, cu_seqlens_q=buffer[:4])
    fill_draft_extend_v2(metadata, 2, torch.empty(0, dtype=torch.int32), 3)
    assert buffer.tolist() == [0, 2, 4, 6, *[DIRT] * 5]
