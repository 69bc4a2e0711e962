from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from patchkit.runtime.api_1 import (
    graphs_draft_extend,
    has_no_requests,
    restore_sparse_lens,
    sparse_columns,
    sparse_extend_lens,
)


def backend(name: str, base: type = object, **fields: Any) -> Any:
    return type(name, (base,), {"topk": 1, "needs_cpu_seq_lens": False, **fields})()


@pytest.mark.parametrize(
    ("target", "graphs"),
    [
        (backend("DeepseekSparseAttnBackend"), True),
        (backend("NativeSparseAttnBackend"), True),
        (backend("NativeSparseAttnBackend", topk=0), True),
        (backend("NativeSparseAttnBackend", topk=4), False),
        # The tree's own, whose replay is shaped by what was accepted.
        (backend("NativeSparseAttnBackend", needs_cpu_seq_lens=True), False),
        (backend("AcmeSparseAttnBackend", type(backend("NativeSparseAttnBackend"))), False),
        (None, False),
    ],
    ids=lambda value: value if isinstance(value, bool) else type(value).__name__,
)
def test_only_a_backend_that_does_without_the_mirror_has_a_graph(target: Any, graphs: bool) -> None:
    def captured(*, on_cuda: bool, tokens: str | None = None) -> bool:
        settings = SimpleNamespace(speculative_token_map=tokens)
        worker: Any = SimpleNamespace(
            server_args=settings, draft_extend_attn_backend=target, speculative_num_draft_tokens=4
        )
        return graphs_draft_extend(worker, False, on_cuda=on_cuda)

    assert captured(on_cuda=True) is graphs
    assert not captured(on_cuda=False)
    assert not captured(on_cuda=True, tokens="part of the vocabulary")


def test_a_table_is_filled_completely_whatever_the_mirror_has(monkeypatch: pytest.MonkeyPatch) -> None:
    table, rows = torch.empty(4, 204), torch.empty(9, 216)
    for mirror in (None, torch.tensor([3, 3]), torch.tensor([40, 17])):
        assert sparse_columns(mirror, table, rows, 4) == 204
        assert sparse_columns(mirror, rows, table) == 204
    monkeypatch.setenv("PATCHKIT_DISABLE", "29413")
    assert sparse_columns(torch.tensor([40, 17]), table, rows, 4) == 44
    assert sparse_columns(None, table, rows) == 204


def test_a_draft_extend_of_version_2_extends_by_the_draft_and_another_by_what_was_accepted() -> None:
    accepted, like = torch.tensor([1, 3, 2, 9], dtype=torch.int32), torch.tensor([7])
    v2: Any = SimpleNamespace(is_draft_extend_v2=lambda: True)
    v1: Any = SimpleNamespace(is_draft_extend_v2=lambda: False)
    lens, listed = sparse_extend_lens(v2, accepted, 3, 4, like)
    assert (lens.tolist(), lens.dtype, listed) == ([4, 4, 4], torch.int32, [4, 4, 4])
    lens, listed = sparse_extend_lens(v1, accepted, 3, 4, like)
    assert (lens.tolist(), listed) == ([1, 3, 2], [1, 3, 2])


def batch(**fields: Any) -> Any:
    known = {
        "batch_size": 2,
        "extend_num_tokens": None,
        "extend_seq_lens": None,
        "extend_seq_lens_cpu": None,
        "seq_lens": torch.tensor([5, 9]),
        "seq_lens_cpu": None,
        "seq_lens_sum": None,
    }
    return SimpleNamespace(**known | fields)


def test_a_batch_that_came_without_the_mirror_gets_it_and_another_keeps_its_own() -> None:
    bare = batch(extend_seq_lens=torch.tensor([4, 4]), extend_num_tokens=8)
    restore_sparse_lens(bare)
    assert (bare.seq_lens_cpu.tolist(), bare.seq_lens_sum, bare.extend_seq_lens_cpu) == ([5, 9], 14, [4, 4])
    kept = batch(seq_lens_cpu=torch.tensor([1, 2]), seq_lens_sum=3)
    restore_sparse_lens(kept)
    assert (kept.seq_lens_cpu.tolist(), kept.seq_lens_sum, kept.extend_seq_lens_cpu) == ([1, 2], 3, None)


@pytest.mark.parametrize("mirror", [True, False])
@pytest.mark.parametrize("lens", [[], [1], [0, 0]])
def test_a_batch_is_empty_if_it_has_no_requests(lens: list[int], mirror: bool) -> None:
    tensor = torch.tensor(lens)
    empty = batch(seq_lens=tensor, seq_lens_cpu=tensor if mirror else None)
    assert has_no_requests(empty) is (lens == [])


def test_the_mirror_decides_where_the_device_has_padding() -> None:
    assert has_no_requests(batch(seq_lens_cpu=torch.tensor([])))
