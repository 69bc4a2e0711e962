"""What FlashMLA plans for a forward, and what its kernel is then given, with stand-ins for what only a GPU has."""

from __future__ import annotations

import dataclasses
import os
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.attention import flashmla_backend
from sglang.srt.layers.attention.flashinfer_mla_backend import FlashInferMLAAttnBackend
from sglang.srt.layers.attention.flashmla_backend import FlashMLABackend, FlashMLAMultiStepDraftBackend

from . import attention_backends as backends

PAGE = 64
HEADS, DIM = 2, 4


class _Table:
    """Writes the pages of each request's tokens into its row, as the tree's kernel does, and none behind them."""

    def __getitem__(self, _: Any) -> Any:
        return self._fill

    def _fill(self, pool: Any, rows: Any, lens: Any, _: Any, table: Any, *__: Any) -> None:
        # What is on the device a kernel may read.
        with torch._C.DisableTorchFunction():
            for at, (row, length) in enumerate(zip(rows.tolist(), lens.tolist(), strict=True)):
                pages = pool[row, :length:PAGE] // PAGE
                table[at, : len(pages)] = pages


def _schedule(lens: Any, heads: int, *_: Any, **__: Any) -> tuple[Any, Any]:
    """Stand in for FlashMLA's plan of how to share out the work: it follows from lengths and heads."""
    return lens.sum().view(1, 1).expand(1, 8) * heads, torch.cat([lens[:0], lens, lens[:1]]) * heads


def _backend(server: dict[str, Any], disable: str, shards: int) -> Any:
    os.environ["PATCHKIT_DISABLE"] = disable
    flashmla_backend.create_flashmla_kv_indices_triton = _Table()
    flashmla_backend.get_mla_metadata = _schedule
    cuda: Any = torch.cuda
    cuda.get_device_properties = lambda *_: SimpleNamespace(multi_processor_count=2)
    backend = FlashMLABackend(backends.model_runner(mla=True, **server))
    backend.dcp_world_size = shards
    return backend


def _planned(metadata: Any, lens: list[int]) -> dict[str, Any]:
    """Return a plan, with no more of the table than the lengths' pages."""
    pages = [-(-length // PAGE) for length in lens]
    rows = [row[:count].tolist() for row, count in zip(metadata.block_kv_indices, pages, strict=False)]
    return {
        "schedule": metadata.flashmla_metadata.tolist(),
        "splits": metadata.num_splits.tolist(),
        "pages": rows,
    }


def needs(disable: str = "", shards: int = 1) -> list[bool]:
    """Return whether a backend, and a draft of two such steps, read the mirror."""
    backend = _backend({"draft_tokens": 4, "context": 2 * PAGE, "page_size": PAGE}, disable, shards)
    draft: Any = object.__new__(FlashMLAMultiStepDraftBackend)
    draft.attn_backends = [backend, backend]
    return [getattr(each, "needs_cpu_seq_lens", True) for each in (backend, draft)]


def extends_by_flashinfer() -> bool:
    """Return whether the tree's own v2 draft-extend is FlashInfer's; in earlier ones nobody's."""
    return not hasattr(FlashMLABackend, "init_forward_metadata_replay_cuda_graph")


def eager(server: dict[str, Any], mode: str, batch: dict[str, Any], mirror: bool) -> dict[str, Any]:
    """Plan a decode or a verify without a graph; return the plan and how often the host read."""
    backend = _backend(server, "", 1)
    planned = backends.eager_batch(backend, server, mode, batch, mirror=mirror)
    reads = backends.HostReads()
    with reads, backends.OnCpu():
        backend.init_forward_metadata(planned)
    written = server["draft_tokens"] if mode == "verify" else 0
    return {
        "plan": _planned(backend.forward_metadata, [length + written for length in batch["lens"]]),
        "reads": reads.count,
    }


def replayed(server: dict[str, Any], mode: str, batch: dict[str, Any], mirror: bool) -> dict[str, Any]:
    """Plan the replay of a graph; return the plan and how often the host read."""
    backend, size = _backend(server, "", 1), batch["graph"]
    state = backends.GraphInputs(backend, size, batch)
    spec = backends.spec_info(mode, stride=server["draft_tokens"])
    sums: dict[str, Any] = {
        "lens_cpu": state.lens_cpu if mirror else None,
        "total": state.total if mirror else None,
    }
    reads = backends.HostReads()
    with backends.OnCpu():
        tokens = size * (server["draft_tokens"] if mode == "verify" else 1)
        backend.init_cuda_graph_state(size, tokens)
        captured = {"bs": size, "rows": state.rows * 0, "lens": state.lens * 0 + 1}
        backends.capture(backend, mode, num_tokens=tokens, spec=spec, **captured)
        with reads:
            backends.replay(backend, mode, bs=size, rows=state.rows, lens=state.lens, spec=spec, **sums)
    written = server["draft_tokens"] if mode == "verify" else 0
    lens = [length + written for length in state.lens.tolist()]
    return {"plan": _planned(backend.forward_metadata, lens), "reads": reads.count}


def draft_extend(
    server: dict[str, Any], batch: dict[str, Any], disable: str = "", *, mirror: bool = False, padded: int = 0
) -> dict[str, Any]:
    """Plan a v2 draft-extend and compute a copy of it; return the plan, what the kernel is given, and who computed.

    The tree pads the planned batch to ``padded`` requests, if that is more, as it does for data-parallel attention.
    """
    backend = _backend(server, disable, 1)
    planned = backends.eager_batch(backend, server, "extend v2", batch, mirror=mirror)
    given: dict[str, Any] = {}

    def kernel(**named: Any) -> tuple[Any, None]:
        assert len(named["q"]) == len(named["block_table"]) == len(named["cache_seqlens"])
        given.update(
            lens=named["cache_seqlens"].tolist(),
            queries=list(named["q"].shape),
            table=named["block_table"].tolist(),
        )
        return torch.zeros(named["q"].shape[0], named["q"].shape[1], HEADS, DIM), None

    flashmla_backend.flash_mla_with_kvcache = kernel
    written: list[Any] = []
    pool = SimpleNamespace(
        set_kv_buffer=lambda _, slots, *__: written.append(slots.tolist()),
        get_key_buffer=lambda _: torch.zeros(PAGE, backend.kv_cache_dim),
    )
    backend.token_to_kv_pool = planned.token_to_kv_pool = pool
    planned.out_cache_loc = torch.arange(len(planned.input_ids))
    parents: Any = FlashInferMLAAttnBackend
    parents.init_forward_metadata = lambda *_: given.update(by="FlashInfer")
    parents.forward_extend = lambda *_: torch.zeros(1)
    layer = SimpleNamespace(
        layer_id=0, tp_q_head_num=HEADS, head_dim=DIM, v_head_dim=DIM, scaling=1.0, k_scale=None
    )
    reads = backends.HostReads()
    with reads, backends.OnCpu():
        backend.init_forward_metadata(planned)
        read = reads.count
    if padded > planned.batch_size:
        planned.batch_size, planned.lora_ids = padded, []
        planned.spec_info.hidden_states = torch.zeros(len(planned.input_ids), 1)
        planned._pad_inputs_to_size(
            SimpleNamespace(attn_backend=backend), padded * server["draft_tokens"], padded
        )
    tokens = torch.zeros(len(planned.input_ids), HEADS * DIM)
    # The runner of later trees computes a copy of the planned batch.
    computed = dataclasses.replace(planned)
    with backends.OnCpu():
        backend.forward_extend(tokens, tokens, tokens, layer, computed)
    if "by" not in given:
        given["plan"] = _planned(backend.forward_metadata, batch["lens"])
        given["reads"] = read
        pages = [-(-length // PAGE) for length in given["lens"]]
        given["table"] = [row[:count] for row, count in zip(given["table"], pages, strict=True)]
    return given | {
        "written": written,
        "mode": computed.forward_mode.name,
        "lens behind": computed.seq_lens.tolist(),
    }
