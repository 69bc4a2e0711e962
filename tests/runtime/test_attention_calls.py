"""Rows are handed on as they lie only where a kernel can address them; whatever is handed on has the same values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from patchkit.runtime.attention_calls import in_place, planned_once, queries


class TritonAttnBackend:
    """A stand-in for the tree's own class, by whose name the runtime goes."""


class FlashAttentionBackend:
    """Likewise."""

    fa_impl_ver = 3
    topk = 1
    _disable_scheduler_metadata_precompute = False


def projection(tokens: int, *widths: int, skip: int = 0) -> tuple[torch.Tensor, ...]:
    """Return rows of ``widths`` side by side, ``skip`` elements behind an aligned address."""
    whole = torch.arange(float(tokens * sum(widths) + skip)).to(torch.bfloat16)[skip:]
    return tuple(torch.split(whole.reshape(tokens, sum(widths)), list(widths), dim=1))


@given(st.integers(1, 5), st.integers(1, 4), st.sampled_from([1, 8, 64]))
def test_rows_of_a_projection_are_not_copied(tokens: int, heads: int, dim: int) -> None:
    _, keys, values = projection(tokens, 16, heads * dim, heads * dim)
    for rows in (keys, values.unflatten(1, (heads, dim))):
        assert in_place(TritonAttnBackend(), rows) is rows


@pytest.mark.parametrize(
    "rows",
    [
        torch.arange(24).reshape(2, 3, 4).transpose(1, 2),
        torch.arange(24).reshape(6, 4).t(),
        torch.arange(4).expand(3, 4),
        torch.arange(24).reshape(4, 6)[:, ::2],
        torch.arange(24)[::2],
        torch.empty_strided((2, 8), (2**31, 1), device="meta"),
    ],
    ids=["heads apart", "columns", "one row thrice", "gaps in a row", "no rows", "beyond 32 bits"],
)
def test_what_is_no_row_that_a_kernel_reaches_is_packed(rows: torch.Tensor) -> None:
    packed = in_place(TritonAttnBackend(), rows)
    assert packed is not rows
    assert packed.is_contiguous()
    assert rows.is_meta or torch.equal(packed, rows)


def test_an_unknown_backend_gets_packed_rows() -> None:
    (rows, _) = projection(3, 16, 16)
    assert in_place(object(), rows).is_contiguous()
    assert queries(object(), rows, 2, 8).is_contiguous()


@given(tokens=st.integers(1, 5), heads=st.integers(1, 4), skip=st.integers(0, 16), beside=st.integers(1, 32))
def test_queries_are_copied_only_for_the_sake_of_alignment(
    tokens: int, heads: int, skip: int, beside: int
) -> None:
    rows, _ = projection(tokens, heads * 8, beside, skip=skip)
    got = queries(FlashAttentionBackend(), rows, heads, 8)
    assert got.shape == (tokens, heads, 8)
    assert torch.equal(got.flatten(1), rows)
    aligned = skip % 8 == 0 and (heads * 8 + beside) % 8 == 0
    assert (got.data_ptr() == rows.data_ptr()) == (aligned or rows.is_contiguous())


def attend(**arguments: Any) -> dict[str, Any]:
    """Stand for the kernel."""
    return arguments


def planned(**changed: Any) -> dict[str, Any]:
    """Return what the kernel gets in a verify that is like others but for what is ``changed``."""
    metadata = SimpleNamespace(
        page_table=torch.zeros(1, 4, dtype=torch.int32),
        cache_seqlens_int32=torch.ones(1, dtype=torch.int32),
        cu_seqlens_q=torch.tensor([0, 2], dtype=torch.int32),
    )
    backend: Any = FlashAttentionBackend()
    backend.forward_metadata = metadata
    backend._get_scheduler_metadata = lambda **arguments: torch.tensor([7])
    batch: Any = SimpleNamespace(forward_mode=SimpleNamespace(is_target_verify=lambda: True))
    cache = torch.zeros(4, 1, 1, 8)
    usual = {
        "q": torch.zeros(2, 1, 8),
        "k_cache": cache,
        "v_cache": cache,
        "page_table": metadata.page_table,
        "cache_seqlens": metadata.cache_seqlens_int32,
        "cu_seqlens_q": metadata.cu_seqlens_q,
        "max_seqlen_q": 2,
        "causal": True,
        "window_size": (-1, -1),
        "softcap": 0.0,
        "num_splits": 0,
    }
    layer: Any = SimpleNamespace(layer_id=0)
    got: dict[str, Any] = planned_once(backend, batch, layer, attend)(**usual | changed)
    return got


@pytest.mark.parametrize("tells", [True, None], ids=["so", "nothing"])
def test_a_tree_with_or_without_known_data_parallel_attention_gets_no_plan(
    tells: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(FlashAttentionBackend, "_disable_scheduler_metadata_precompute")
    if tells is not None:
        monkeypatch.setattr(
            FlashAttentionBackend, "_disable_scheduler_metadata_precompute", tells, raising=False
        )
    assert "scheduler_metadata" not in planned()


def test_prefill_context_parallelism_gets_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlashAttentionBackend, "attn_cp_size", 1, raising=False)
    assert "scheduler_metadata" in planned()
    monkeypatch.setattr(FlashAttentionBackend, "attn_cp_size", 2)
    assert "scheduler_metadata" not in planned()


def test_a_call_that_the_metadata_describes_gets_the_plan() -> None:
    assert int(planned()["scheduler_metadata"]) == 7
    assert int(planned(sinks=torch.zeros(1))["scheduler_metadata"]) == 7


@pytest.mark.parametrize(
    ("value", "plans"), [("0", False), ("False", False), ("no", False), ("1", True), ("", True)]
)
def test_a_kernel_that_does_not_come_with_the_planner_gets_no_plan(
    value: str, plans: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLANG_USE_SGL_FA3_KERNEL", value)
    assert ("scheduler_metadata" in planned()) is plans


@pytest.mark.parametrize(
    "changed",
    [
        {"ver": 4},
        {"page_table": torch.zeros(1, 4, dtype=torch.int32)},
        {"cache_seqlens": torch.ones(1, dtype=torch.int32)},
        {"cu_seqlens_q": torch.tensor([0, 2], dtype=torch.int32)},
        {"causal": False},
        {"window_size": (16, 0)},
        {"v_cache": torch.zeros(4, 1, 1, 4)},
        {"score_mod": "a fork's argument"},
        {"scheduler_metadata": "a fork's plan"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_any_other_call_goes_to_the_kernel_as_it_is(changed: dict[str, Any]) -> None:
    assert planned(**changed).get("scheduler_metadata") == changed.get("scheduler_metadata")
