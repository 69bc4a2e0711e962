"""What the Triton backend plans, in an eager batch, a graph's replay and the steps of a draft."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend, TritonMultiStepDraftBackend

from . import attention_backends as backends
from . import repeatable

FIELDS = (
    "max_extend_len",
    "kv_indptr",
    "qo_indptr",
    "custom_mask",
    "mask_indptr",
    "window_kv_indptr",
    "window_kv_offsets",
)


def _live(indices: torch.Tensor | None, offsets: torch.Tensor | None) -> Any:
    """Return the indices up to the last offset: what is behind, no kernel reads."""
    return None if indices is None or offsets is None else backends.plain(indices[: int(offsets[-1])])


def _planned(metadata: Any) -> dict[str, Any]:
    return backends.fields_of(metadata, FIELDS) | {
        "kv_indices": _live(metadata.kv_indices, metadata.kv_indptr),
        "window_kv_indices": _live(metadata.window_kv_indices, metadata.window_kv_indptr),
        "size": metadata.kv_indices.numel(),
    }


@repeatable
def eager(
    server: dict[str, Any], mode: str, batch: dict[str, Any], mirror: bool, listed: bool = False
) -> dict[str, Any]:
    """Plan a batch without a graph. ``listed`` leaves an extend without the mirror the list of its new tokens."""
    backend = TritonAttnBackend(backends.model_runner(**server))
    planned = backends.eager_batch(backend, server, mode, batch, mirror=mirror)
    if listed:
        planned.extend_seq_lens_cpu = list(batch["accepted"])
    reads = backends.HostReads()
    with reads:
        backend.init_forward_metadata(planned)
    return _planned(backend.forward_metadata) | {"host_reads": reads.count}


class Fork(TritonAttnBackend):
    """A fork's subclass, which may have a kernel of its own."""


def extended(kind: str, mode: str, disable: str = "") -> dict[str, bool]:
    """Let a layer attend, and tell of keys and values that the kernel was given whether each was copied.

    ``kind``: ``rows`` of a projection, ``heads`` that lie apart, or rows that a ``fork``'s backend is given.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    server: dict[str, Any] = {"context": 64, "page_size": 1, "draft_tokens": 4}
    backend = (Fork if kind == "fork" else TritonAttnBackend)(backends.model_runner(**server))
    batch = backends.eager_batch(
        backend, server, mode, {"rows": [3, 9], "lens": [40, 17], "accepted": [4, 4]}
    )
    backend.init_forward_metadata(batch)
    pool = SimpleNamespace(get_key_buffer=lambda layer: None, get_value_buffer=lambda layer: None)
    batch.token_to_kv_pool = backend.token_to_kv_pool = pool
    shape = (backends.HEADS, backends.HEAD_DIM)
    projection = torch.arange(8 * 3 * backends.HEADS * backends.HEAD_DIM).to(torch.bfloat16).reshape(8, -1)
    query, *given = (part.unflatten(1, shape) for part in projection.chunk(3, dim=1))
    if kind == "heads":
        given = [part.transpose(0, 1).contiguous().transpose(0, 1) for part in given]
    got: list[torch.Tensor] = []
    backend.extend_attention_fwd = lambda query, keys, values, *_, **more: got.extend([keys, values])
    layer = SimpleNamespace(
        layer_id=0,
        qk_head_dim=backends.HEAD_DIM,
        v_head_dim=backends.HEAD_DIM,
        tp_q_head_num=backends.HEADS,
        sliding_window_size=-1,
        is_cross_attention=False,
        attn_type=None,
        logit_capping_method="tanh",
        logit_cap=0.0,
        scaling=1.0,
        k_scale=None,
        xai_temperature_len=-1,
    )
    backend.forward_extend(query.flatten(1), *given, layer, batch, save_kv_cache=False)
    assert all(torch.equal(one, other) for one, other in zip(got, given, strict=True))
    names = ("keys", "values")
    return {n: one.data_ptr() != other.data_ptr() for n, one, other in zip(names, got, given, strict=True)}


@repeatable
def replays(session: dict[str, Any], mirror: bool, disable: str = "") -> list[dict[str, Any]]:
    """Capture a graph of each size, then replay the batches, and return what the graphs' buffers hold.

    ``disable`` names patches that are off. In later trees a draft-extend says how many tokens of a length it
    ``extends``, once its graph is replayed.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    server, mode, graphs = session["server"], session["mode"], session["graphs"]
    backend = TritonAttnBackend(backends.model_runner(**server))
    stride = 1 if mode == "decode" else server["draft_tokens"]
    largest = max(graphs)
    backend.init_cuda_graph_state(largest, largest * stride)
    for bs in sorted(graphs, reverse=True):
        state = backends.GraphInputs(backend, largest)
        spec = backends.spec_info(mode, accepted=[stride] * bs, stride=stride)
        backends.capture(
            backend, mode, bs=bs, num_tokens=bs * stride, rows=state.rows, lens=state.lens, spec=spec
        )
    results = []
    for batch in session["batches"]:
        bs = batch["graph"]
        state = backends.GraphInputs(backend, largest, batch)
        reads = backends.HostReads()
        spec = backends.spec_info(mode, accepted=batch["accepted"], stride=batch["stride"])
        if "extends" in batch:
            spec.extend_seq_lens_tensor = torch.full((bs,), batch["extends"], dtype=torch.int32)
        with reads:
            backends.replay(
                backend,
                mode,
                bs=bs,
                rows=state.rows[:bs],
                lens=state.lens[:bs],
                lens_cpu=state.lens_cpu[:bs] if mirror else None,
                total=state.total if mirror else None,
                spec=spec,
            )
        offsets = {
            name: value[: bs + 1]
            for name in ("kv_indptr", "qo_indptr", "mask_indptr", "window_kv_indptr")
            if (value := getattr(backend, name)) is not None
        }
        results.append(
            {name: backends.plain(value) for name, value in offsets.items()}
            | {
                "kv_indices": _live(backend.cuda_graph_kv_indices, offsets["kv_indptr"]),
                "window_kv_indices": _live(
                    getattr(backend, "cuda_graph_window_kv_indices", None), offsets.get("window_kv_indptr")
                ),
                "host_reads": reads.count,
            }
        )
    return results


def fills(session: dict[str, Any], disable: str = "") -> int:
    """Replay a session's batches and return how many of patchkit's fills that took."""
    from patchkit.runtime import triton_attention

    runtime: Any = triton_attention
    filled = []
    fill = runtime.fill_slots

    def counted(*given: Any, **named: Any) -> None:
        filled.append(given)
        fill(*given, **named)

    runtime.fill_slots = counted
    replays(session, mirror=True, disable=disable)
    return len(filled)


def masked(inside: bool) -> Any:
    """Replay a verify whose tree mask lies in the graph's buffer or elsewhere; return that over the context."""
    server: dict[str, Any] = {"context": 32, "page_size": 1, "draft_tokens": 2}
    backend = TritonAttnBackend(backends.model_runner(**server))
    backend.init_cuda_graph_state(2, 4)
    state = backends.GraphInputs(backend, 2, {"graph": 2, "rows": [3, 5], "lens": [4, 6]})
    spec = backends.spec_info("verify", stride=2)
    buffer = backend.cuda_graph_custom_mask
    buffer[::3] = 1
    spec.custom_mask = buffer if inside else buffer[:28].clone().bitwise_xor_(1)
    backends.replay(
        backend,
        "verify",
        bs=2,
        rows=state.rows,
        lens=state.lens,
        lens_cpu=state.lens_cpu,
        total=10,
        spec=spec,
    )
    # Patched, there is room for the draft's own tokens behind it.
    return backends.plain(buffer[: 4 * server["context"]])


def _draft(server: dict[str, Any]) -> Any:
    return TritonMultiStepDraftBackend(backends.model_runner(**server), server["topk"], server["steps"])


@repeatable
def draft(server: dict[str, Any], batch: dict[str, Any], mirror: bool) -> list[dict[str, Any]]:
    """Plan all steps of a draft without a graph."""
    drafting = _draft(server)
    planned = backends.eager_batch(drafting.attn_backends[0], server, "draft decode", batch, mirror=mirror)
    reads = backends.HostReads()
    with reads:
        drafting.init_forward_metadata(planned)
    return [_planned(step.forward_metadata) | {"host_reads": reads.count} for step in drafting.attn_backends]


def draft_replay(server: dict[str, Any], batch: dict[str, Any], mirror: bool) -> dict[str, Any]:
    """Capture and replay a draft's graph, and return what each step's buffers hold."""
    drafting = _draft(server)
    topk, count = server["topk"], len(batch["lens"])
    drafting.init_cuda_graph_state(count, count * topk)
    planned = backends.eager_batch(drafting.attn_backends[0], server, "draft decode", batch, mirror=mirror)
    reads = backends.HostReads()
    with reads:
        if hasattr(drafting, "init_forward_metadata_replay_cuda_graph"):
            drafting.init_forward_metadata_capture_cuda_graph(planned)
            drafting.init_forward_metadata_replay_cuda_graph(planned, count)
        else:
            drafting.init_forward_metadata_out_graph(planned, in_capture=True)
            drafting.init_forward_metadata_out_graph(planned)
    captured = [step.forward_metadata for step in drafting.attn_backends]
    return {
        "steps": [_live(metadata.kv_indices, metadata.kv_indptr) for metadata in captured],
        "offsets": [backends.plain(metadata.kv_indptr) for metadata in captured],
        "sizes": [metadata.kv_indices.numel() for metadata in captured],
        "host_reads": reads.count,
    }


def flags() -> tuple[bool | None, bool | None]:
    """Return whether the backend and its draft say that they read the mirror, None where they say nothing."""
    found = [
        getattr(each, "needs_cpu_seq_lens", None) for each in (TritonAttnBackend, TritonMultiStepDraftBackend)
    ]
    return found[0], found[1]
