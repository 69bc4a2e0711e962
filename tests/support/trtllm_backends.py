"""Hand-built TRTLLM MHA backends, and an unpatched tree's replay of them, operation by operation."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

# What an earlier replay left: no page of the pool has this number.
DIRT = 987_654
REQUESTS = 40


@dataclass(frozen=True)
class Mode:
    """A forward mode, by upstream's predicates."""

    name: str

    def is_decode_or_idle(self) -> bool:
        return self.name in {"decode", "draft decode"}

    def is_target_verify(self) -> bool:
        return self.name == "verify"

    def is_draft_extend(self, include_v2: bool = False) -> bool:
        return self.name == "extend v1" or (include_v2 and self.name == "extend v2")

    def is_draft_extend_v2(self) -> bool:
        return self.name == "extend v2"


MHA_MODES = ("decode", "draft decode", "verify", "extend v1", "extend v2")


@dataclass(frozen=True)
class Scenario:
    """One replay. ``lens`` has a length for each request of the graph, the padding's 1 among them."""

    mode: str
    lens: tuple[int, ...]
    page_size: int = 64
    context: int = 300
    dtype: torch.dtype = torch.int64
    swa: bool = False
    # No slot has a counterpart in the sliding window's pool.
    unmapped: bool = False
    # Tokens a request in a verify or draft-extend, and the step of a draft decode.
    stride: int = 4
    step: int = 1
    # Rows that the buffers have beyond those of the graph.
    spare: int = 2
    seed: int = 0


def random_integers(scenario: Scenario, high: int, shape: tuple[int, ...], low: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(scenario.seed + high)
    return torch.randint(low, high, shape, generator=generator)


def _pool(scenario: Scenario) -> dict[str, Any]:
    slots = 4 * scenario.context
    mapping = random_integers(scenario, slots // 2, (slots,), low=-1)
    if scenario.unmapped:
        mapping.fill_(-1)
    return {
        "page_size": scenario.page_size,
        "max_context_len": scenario.context,
        "req_to_token": random_integers(scenario, slots, (REQUESTS, scenario.context)).to(torch.int32),
        "_swa_kv_pool": SimpleNamespace(full_to_swa_index_mapping=mapping) if scenario.swa else None,
    }


def _dirty(*shape: int) -> torch.Tensor:
    return torch.full(shape, DIRT, dtype=torch.int32)


def inputs(scenario: Scenario) -> tuple[torch.Tensor, torch.Tensor]:
    """Return request rows and lengths; after those of the graph come invalid rows and lengths."""
    bs = len(scenario.lens)
    lens = torch.tensor([*scenario.lens, *[-DIRT] * scenario.spare], dtype=scenario.dtype)
    rows = random_integers(scenario, REQUESTS, (bs,))
    return torch.cat([rows, torch.full((scenario.spare,), DIRT)]).to(scenario.dtype), lens


def mha_backend(scenario: Scenario) -> SimpleNamespace:
    """Return a backend after the capture of the scenario's graph, with stale values of an earlier replay."""
    bs, spare = len(scenario.lens), scenario.spare
    pages = -(-scenario.context // scenario.page_size)
    table = _dirty(bs + spare, pages)
    swa_table = _dirty(bs + spare, pages) if scenario.swa else None
    stride = 1 if Mode(scenario.mode).is_decode_or_idle() else scenario.stride
    metadata = SimpleNamespace(
        cache_seqlens_int32=_dirty(bs + spare)[:bs],
        max_seq_len_q=stride,
        max_seq_len_k=DIRT,
        cu_seqlens_q=torch.arange(0, bs * stride + 1, stride, dtype=torch.int32),
        cu_seqlens_k=_dirty(bs + 1 + spare)[: bs + 1],
        page_table=table[:bs, :],
        swa_page_table=None if swa_table is None else swa_table[:bs, :],
    )
    metadata.cu_seqlens_k[0] = 0
    by_size: dict[Any, Any] = {bs: metadata}
    by_size["strided_indices"] = torch.arange(0, scenario.context, scenario.page_size)
    return SimpleNamespace(
        **_pool(scenario),
        tables=[table] if swa_table is None else [table, swa_table],
        decode_cuda_graph_metadata=by_size,
        target_verify_metadata=by_size,
        draft_extend_metadata=by_size,
        speculative_step_id=scenario.step,
        forward_metadata=None,
    )


def spec_info(scenario: Scenario) -> Any:
    """Return the batch's spec info; a plain decode has none."""
    if scenario.mode == "decode":
        return None
    bs = len(scenario.lens)
    accepted = random_integers(scenario, scenario.stride + 1, (bs + scenario.spare,), low=1).to(
        scenario.dtype
    )
    return SimpleNamespace(
        num_tokens_per_req=scenario.stride,
        num_accept_tokens=accepted,
        num_accept_tokens_cpu=accepted[:bs].tolist(),
    )


def replay_mha_by_steps(
    backend: Any, bs: int, rows: torch.Tensor, lens: torch.Tensor, *, forward_mode: Any, spec: Any
) -> None:
    """Replay as the unpatched tree does: one small operation after another, up to the longest request."""
    metadata = backend.decode_cuda_graph_metadata[bs]
    lens, rows = lens[:bs], rows[:bs]
    longest = int(lens.cpu().max())
    if forward_mode.is_decode_or_idle():
        more = 0 if spec is None else backend.speculative_step_id + 1
    else:
        more = metadata.max_seq_len_q if forward_mode.is_target_verify() else 0
    metadata.max_seq_len_k = longest + more
    metadata.cache_seqlens_int32.copy_(lens + more)
    metadata.cu_seqlens_k[1:].copy_(torch.cumsum(metadata.cache_seqlens_int32, 0, dtype=torch.int32))
    if forward_mode.is_draft_extend():
        metadata.max_seq_len_q = max(spec.num_accept_tokens_cpu)
        metadata.cu_seqlens_q[1:].copy_(torch.cumsum(spec.num_accept_tokens[:bs], 0, dtype=torch.int32))
    elif forward_mode.is_draft_extend_v2():
        metadata.max_seq_len_q = spec.num_tokens_per_req
        ends = range(spec.num_tokens_per_req, bs * spec.num_tokens_per_req + 1, spec.num_tokens_per_req)
        metadata.cu_seqlens_q[1:].copy_(torch.tensor(list(ends), dtype=torch.int32))
    pages = -(-metadata.max_seq_len_k // backend.page_size)
    firsts = backend.decode_cuda_graph_metadata["strided_indices"][:pages]
    slots = backend.req_to_token[rows[:, None], firsts[None, :]]
    metadata.page_table[:, :pages].copy_(slots // backend.page_size)
    if metadata.swa_page_table is not None:
        counterparts = backend._swa_kv_pool.full_to_swa_index_mapping[slots]
        metadata.swa_page_table[:, :pages].copy_(counterparts // backend.page_size)
    backend.forward_metadata = metadata


def own_pages(backend: Any, bs: int) -> torch.Tensor:
    """Return which columns of a page table are each request's own: bool, shape [bs, pages]."""
    metadata = backend.decode_cuda_graph_metadata[bs]
    firsts = torch.arange(metadata.page_table.shape[1]) * backend.page_size
    own: torch.Tensor = firsts < metadata.cache_seqlens_int32[:, None]
    return own
