"""What FlashInfer plans for a draft-extend and a verify, in graphs and without, and who has a graph for it."""

from __future__ import annotations

import functools
import importlib
import os
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.attention import flashinfer_backend, flashinfer_mla_backend
from sglang.srt.layers.attention.flashinfer_backend import FlashInferAttnBackend
from sglang.srt.speculative import eagle_worker_v2

from . import attention_backends as backends
from . import repeatable

LAYOUT = ("starts", "keys", "last_pages")


class Fork(FlashInferAttnBackend):
    """A fork's subclass, which may override anything."""


class _Module:
    """Stand-in for FlashInfer's compiled kernels, whose plan is the layout on the host."""

    def __init__(self) -> None:
        self.planned: list[Any] = []

    def plan(self, *given: Any) -> list[int]:
        buffers, (starts, keys, lens), numbers = given[:3], given[3:6], given[6:]
        assert len(buffers) == 3
        self.planned = [backends.plain(start) for start in (starts, keys, lens.to(torch.int32))] + list(
            numbers
        )
        return [len(starts), int(starts[-1]), int(keys[-1])]


class Wrapper:
    """A prefill wrapper in a graph, which copies to the device and to the host as FlashInfer's own does."""

    behaviour = ""
    """What it does with a layout that is on the host: ``refuses`` it, plans ``otherwise``, or what it ought to."""
    on_device: tuple[int, ...] = ()

    def __init__(self, workspace: torch.Tensor, layout: str, **given: Any) -> None:
        self.given = {name: value for name, value in given.items() if not isinstance(value, torch.Tensor)}
        self.is_cuda_graph_enabled = given.get("use_cuda_graph", False)
        self.device, self._backend = workspace.device, given.get("backend")
        self._qo_indptr_buf: Any = given.get("qo_indptr_buf")
        self._paged_kv_indptr_buf: Any = given.get("paged_kv_indptr_buf")
        self._paged_kv_indices_buf: Any = given.get("paged_kv_indices_buf")
        self._paged_kv_last_page_len_buf: Any = given.get("paged_kv_last_page_len_buf")
        self._float_workspace_buffer = self._int_workspace_buffer = workspace
        self._pin_memory_int_workspace_buffer = workspace
        self._cached_module: Any = None
        self._max_total_num_rows: int | None = None
        self._plan_info: Any = None
        self.waits = 0
        self.is_masked = False

    def begin_forward(
        self,
        qo_indptr: torch.Tensor,
        paged_kv_indptr: torch.Tensor,
        paged_kv_indices: torch.Tensor,
        paged_kv_last_page_len: torch.Tensor,
        *sizes: int,
        custom_mask: Any = None,
        causal: bool = False,
        fixed_split_size: int | None = None,
        **named: Any,
    ) -> None:
        """Plan."""
        layout = (qo_indptr, paged_kv_indptr, paged_kv_last_page_len)
        waits = sum(each.data_ptr() in self.on_device for each in layout)
        self.waits += waits
        if not waits and self.behaviour == "refuses":
            raise ValueError("a layout on the host")
        self.is_masked = custom_mask is not None
        query_heads, key_heads, head_dim, page_size = sizes
        self._cached_module = self._cached_module or _Module()
        buffers = (self._qo_indptr_buf, self._paged_kv_indptr_buf, self._paged_kv_last_page_len_buf)
        for buffer, given in zip(buffers, layout, strict=True):
            buffer.copy_(given)
        live = int(paged_kv_indptr[-1])
        self._paged_kv_indices_buf[:live].copy_(paged_kv_indices[:live])
        rows = int(qo_indptr[-1])
        self._max_total_num_rows = self._max_total_num_rows or rows
        lens = paged_kv_indptr.diff() + (not waits and self.behaviour == "otherwise")
        self._plan_info = self._cached_module.plan(
            self._float_workspace_buffer,
            self._int_workspace_buffer,
            self._pin_memory_int_workspace_buffer,
            qo_indptr + (not waits and self.behaviour == "otherwise"),
            paged_kv_indptr,
            lens,
            self._max_total_num_rows,
            len(paged_kv_last_page_len),
            query_heads,
            key_heads,
            page_size,
            self.is_cuda_graph_enabled,
            head_dim,
            head_dim,
            causal,
            -1,
            fixed_split_size or -1,
            False,
            0,
        )


class LatentWrapper:
    """A wrapper for multi-latent attention, which copies to the device and to the host as FlashInfer's own does."""

    def __init__(self, workspace: torch.Tensor, *, use_cuda_graph: bool = False, **given: Any) -> None:
        self._qo_indptr_buf, self._kv_indptr_buf = given.get("qo_indptr"), given.get("kv_indptr")
        self._kv_indices_buf, self._kv_len_arr_buf = given.get("kv_indices"), given.get("kv_len_arr")
        self._workspace, self._use_cuda_graph = workspace, use_cuda_graph
        self._plan_info: Any = None
        self.planned: list[Any] = []
        self.waits = 0

    def plan(self, *given: Any) -> None:
        """Plan."""
        (starts, keys, slots, lens), more = given[:4], given[4:]
        waits = len((starts, keys, lens)) if starts.data_ptr() in Wrapper.on_device else 0
        self.waits += waits
        if not waits and Wrapper.behaviour == "refuses":
            raise ValueError("a layout on the host")
        if self._use_cuda_graph:
            buffers: Any = (
                self._qo_indptr_buf,
                self._kv_indptr_buf,
                self._kv_len_arr_buf,
                self._kv_indices_buf,
            )
            for buffer, value in zip(buffers, (starts, keys, lens, slots[: int(keys[-1])]), strict=True):
                buffer[: len(value)].copy_(value)
        else:
            self._qo_indptr_buf, self._kv_indptr_buf, self._kv_len_arr_buf = starts, keys, lens
            self._kv_indices_buf = slots
        otherwise = int(not waits and Wrapper.behaviour == "otherwise")
        self.planned = [backends.plain(start) for start in (starts, keys, lens.to(torch.int32))] + [
            str(each) for each in more
        ]
        self._plan_info = [len(starts), int(starts[-1]) + otherwise, int(keys[-1])]

    def read(self) -> dict[str, Any]:
        """Return what its kernels read, how it was planned, and how often the host waited for the plan."""
        read: Any = (self._qo_indptr_buf, self._kv_indptr_buf, self._kv_len_arr_buf)
        slots: Any = self._kv_indices_buf
        return {
            "read": [backends.plain(each) for each in read],
            "slots": backends.plain(slots[: int(read[1][-1])]),
            "plan": self.planned,
            "waits": self.waits,
        }


def _latent(server: dict[str, Any], environment: dict[str, str], behaviour: str) -> Any:
    os.environ.update(environment)
    Wrapper.behaviour = behaviour
    flashinfer_mla_backend.BatchMLAPagedAttentionWrapper = LatentWrapper
    backend = backends.target("flashinfer mla", server, None)
    Wrapper.on_device = (backend.indices_updater_prefill.qo_indptr.data_ptr(),)
    return backend


def _dflash_verify(tokens: int) -> Any:
    """Return the input of a DFLASH verify, which has no tree."""
    made = importlib.import_module("sglang.srt.speculative.dflash_info").DFlashVerifyInput
    nothing = torch.empty(0, dtype=torch.int64)
    return made(draft_token=nothing, positions=nothing, draft_token_num=tokens, custom_mask=None)


@functools.cache
def _generates(verify_input: Any) -> Any:
    """Return the tree's own method, as it is at the first call."""
    return verify_input.generate_attn_arg_prefill


def _generate_on_cpu(verify_input: Any) -> None:
    """Let a kind of verify lay out its queries and keys on the CPU."""
    made = _generates(verify_input)

    def generated(self: Any, *given: Any) -> Any:
        with backends.OnCpu():
            slots, keys, starts, mask = made(self, *given)
        Wrapper.on_device = (starts.data_ptr(),)
        return slots, keys, starts, mask

    verify_input.generate_attn_arg_prefill = generated


@repeatable
def latent_verifies(
    session: dict[str, Any],
    mirror: str,
    environment: dict[str, str],
    behaviour: str = "",
    worker: str = "eagle",
) -> list[dict[str, Any]]:
    """Capture a multi-latent verify of each size, then replay the batches one after the other.

    A ``mirror`` that is a ``bound`` is the lengths themselves in the first batch of each graph, and more later on.
    """
    backend = _latent(session["server"], environment, behaviour)
    tokens, largest, result = session["server"]["draft_tokens"], max(session["graphs"]), []
    with backends.OnCpu():
        backend.init_cuda_graph_state(largest, largest * tokens)

    def spec() -> Any:
        if worker == "dflash":
            return _dflash_verify(tokens)
        verify = backends.spec_info("verify", stride=tokens)
        verify.custom_mask = torch.ones(
            tokens * largest * (session["server"]["context"] + tokens), dtype=torch.bool
        )
        return verify

    _generate_on_cpu(type(spec()))
    wrappers = {}
    for bs in sorted(session["graphs"], reverse=True):
        state = backends.GraphInputs(backend, largest)
        backends.capture(
            backend, "verify", bs=bs, num_tokens=bs * tokens, rows=state.rows, lens=state.lens, spec=spec()
        )
        wrappers[bs] = backend.forward_metadata.prefill_wrapper
    seen: set[int] = set()
    for batch in session["batches"]:
        bs = batch["graph"]
        state = backends.GraphInputs(backend, largest, batch)
        bound = state.lens_cpu + (1 if bs in seen else 0)
        seen.add(bs)
        lens_cpu, total = {
            "true": (state.lens_cpu, state.total),
            "none": (None, state.total),
            "wrong": (state.lens_cpu + 1, state.total),
            "bound": (bound, int(bound[:bs].sum())),
        }[mirror]
        wrappers[bs].waits = 0
        backends.replay(
            backend,
            "verify",
            bs=bs,
            rows=state.rows,
            lens=state.lens,
            lens_cpu=lens_cpu,
            total=total,
            spec=spec(),
        )
        result.append(wrappers[bs].read())
    return result


def latent_extends(
    server: dict[str, Any],
    modes: list[str],
    batch: dict[str, Any],
    environment: dict[str, str],
    behaviour: str = "",
) -> list[dict[str, Any]]:
    """Plan extends of a multi-latent backend without a graph, one after the other, on one wrapper."""
    backend = _latent(server, environment, behaviour)
    backend.req_to_token = backend.indices_updater_prefill.req_to_token
    results = []
    for mode in modes:
        planned = backends.eager_batch(backend, server, mode, batch)
        with backends.OnCpu():
            backend.init_forward_metadata(planned)
        results.append(backend.prefill_wrapper_paged.read())
        backend.prefill_wrapper_paged.waits = 0
    return results


def _runner(server: dict[str, Any], **more: Any) -> Any:
    flashinfer_backend.BatchPrefillWithPagedKVCacheWrapper = Wrapper
    runner = backends.model_runner(**server)
    vars(runner.model_config).update(more.pop("model", {}))
    # Later trees ask all of a server for it.
    flashinfer_backend._cuda_graph_capture_max_bs = lambda _, size: size
    vars(runner.server_args).update(more)
    return runner


def _backend(server: dict[str, Any], cls: Any = FlashInferAttnBackend, **more: Any) -> Any:
    with backends.OnCpu():
        return cls(_runner(server, **more))


@repeatable
def replays(session: dict[str, Any], mirror: str, environment: dict[str, str], **how: Any) -> dict[str, Any]:
    """Capture a graph of each size, then replay the batches one after the other on the same backend.

    ``mirror`` is what a replay is handed for the host's lengths: the ``true`` ones, ``none`` without a sum,
    ``stale`` ones without a sum, or ``wrong`` ones with it. Of ``how``, ``behaviour`` is a wrapper's, ``listed``
    says whether a worker's list is asked about the backend first, and with ``all_accepted`` the mode is the v1
    draft-extend, in which every token was. With ``branches`` it is a verify, of so many in each request.
    """
    os.environ.update(environment)
    Wrapper.behaviour = how.get("behaviour", "")
    server, graphs, branches = session["server"], session["graphs"], how.get("branches", 0)
    tokens, mode = server["draft_tokens"], "extend v1" if how.get("all_accepted") else "extend v2"
    mode = "verify" if branches else mode
    backend = _backend(server)
    updater = backend.indices_updater_prefill
    on_device = (updater.kv_indptr[0], updater.qo_indptr[0], updater.kv_last_page_len)
    Wrapper.on_device = tuple(each.data_ptr() for each in on_device)
    if how.get("listed", True):
        captured({"": {"draft_extend_attn_backend": backend}}, tokens=tokens)
    largest = max(graphs)
    with backends.OnCpu():
        backend.init_cuda_graph_state(largest, largest * tokens)
    wrappers, result = {}, []

    def spec_of(bs: int) -> Any:
        if not branches:
            return backends.spec_info("extend v1", accepted=[tokens] * bs, stride=tokens)
        spec = backends.spec_info("verify", stride=tokens, topk=branches)
        spec.custom_mask = torch.ones(tokens * bs * (server["context"] + tokens), dtype=torch.bool)
        return spec

    if branches:
        _generate_on_cpu(type(spec_of(1)))
    for bs in sorted(graphs, reverse=True):
        state = backends.GraphInputs(backend, largest)
        backends.capture(
            backend,
            mode,
            bs=bs,
            num_tokens=bs * tokens,
            rows=state.rows,
            lens=state.lens,
            spec=spec_of(bs),
            total=int(state.lens[:bs].sum()),
        )
        metadata = backend.forward_metadata
        (wrappers[bs],) = metadata.prefill_wrappers
        result.append(
            _read(backend, wrappers[bs], bs) | {"ragged": metadata.use_ragged, "made": wrappers[bs].given}
        )
    captured_as, result = result, []
    for batch in session["batches"]:
        bs = batch["graph"]
        state = backends.GraphInputs(backend, largest, batch)
        lens_cpu, total = {
            "true": (state.lens_cpu, state.total),
            "none": (None, None),
            "stale": (torch.full_like(state.lens_cpu, 3), None),
            "wrong": (state.lens_cpu + 1, state.total),
        }[mirror]
        wrappers[bs].waits = 0
        backends.replay(
            backend,
            mode,
            bs=bs,
            rows=state.rows,
            lens=state.lens,
            lens_cpu=lens_cpu,
            total=total,
            spec=spec_of(bs),
        )
        result.append(_read(backend, wrappers[bs], bs) | {"masked": wrappers[bs].is_masked})
    return {"captured": captured_as, "replayed": result}


def _read(backend: Any, wrapper: Wrapper, bs: int) -> dict[str, Any]:
    """Return what the kernels of a graph read, how it was planned, and how often the host waited for that."""
    keys = wrapper._paged_kv_indptr_buf
    return {
        "starts": backends.plain(wrapper._qo_indptr_buf),
        "keys": backends.plain(keys),
        "slots": backends.plain(wrapper._paged_kv_indices_buf[: int(keys[-1])]),
        "last_pages": backends.plain(wrapper._paged_kv_last_page_len_buf),
        "plan": wrapper._cached_module.planned,
        "waits": wrapper.waits,
    }


def _made(kind: str) -> Any:
    server: dict[str, Any] = {"context": 64, "page_size": 1}
    if kind == "window":
        return _backend(server | {"window": 16})
    if kind == "cross":
        return _backend(server, model={"is_encoder_decoder": True})
    if kind == "multimodal":
        return _backend(server, model={"is_multimodal": True})
    if kind == "deterministic":
        return _backend(server, enable_deterministic_inference=True)
    if kind == "fork":
        return _backend(server, Fork)
    if kind == "latent":
        return backends.target("flashinfer mla", server, None)
    made = _backend(server)
    if kind == "version 3":
        made.prefill_backend = "fa3"
    return made


def captured(workers: dict[str, dict[str, Any]], *, tokens: int, cuda: bool = True) -> dict[str, bool]:
    """Return, for each worker, whether it captures its draft-extend, of ``tokens`` tokens a request."""
    eagle_worker_v2._is_cuda = cuda
    eagle_worker_v2._is_musa = eagle_worker_v2._is_hip = eagle_worker_v2._is_npu = False
    for name in ("EAGLEDraftCudaGraphRunner", "EAGLEDraftExtendCudaGraphRunner"):
        setattr(eagle_worker_v2, name, lambda worker: "graph")
    eagle_worker_v2.get_available_gpu_memory = lambda *_: 1.0
    found = {}
    for name, given in workers.items():
        worker = object.__new__(eagle_worker_v2.EagleDraftWorker)
        vars(worker).update(
            speculative_num_steps=1,
            speculative_num_draft_tokens=tokens,
            device="cuda",
            gpu_id=0,
            target_worker=SimpleNamespace(device="cuda"),
            draft_attn_backend=None,
            draft_extend_attn_backend=given["draft_extend_attn_backend"],
            server_args=SimpleNamespace(
                disable_cuda_graph=False,
                model_impl="auto",
                decode_attention_backend=None,
                cuda_graph_config=None,
                speculative_num_steps=given.get("steps", tokens - 1),
                speculative_num_draft_tokens=given.get("draft_tokens", tokens),
                speculative_token_map=given.get("token_map"),
            ),
        )
        worker.init_cuda_graphs()
        found[name] = worker.cuda_graph_runner_for_draft_extend == "graph"
    return found


def captures(
    kinds: list[str], environment: dict[str, str], *, tokens: int = 4, cuda: bool = True, **server_args: Any
) -> dict[str, bool]:
    """Return, for each kind of draft-extend backend, whether a v2 worker captures it in a graph."""
    os.environ.update(environment)
    workers = {kind: {"draft_extend_attn_backend": _made(kind), **server_args} for kind in kinds}
    return captured(workers, tokens=tokens, cuda=cuda)
