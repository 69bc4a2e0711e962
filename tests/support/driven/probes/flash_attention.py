"""What FlashAttention plans for a forward, in graphs and without, and who keeps the mirror."""

from __future__ import annotations

import functools
import os
import sys
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.environ import envs
from sglang.srt.layers.attention.flashattention_backend import (
    FlashAttentionBackend,
    FlashAttentionMultiStepBackend,
)
from sglang.srt.layers.radix_attention import AttentionType
from sglang.srt.speculative import eagle_info, eagle_worker_v2
from sglang.srt.speculative import spec_info as algorithms

from . import attention_backends as backends
from . import draft_steps, repeatable

FIELDS = (
    "cache_seqlens_int32",
    "max_seq_len_q",
    "max_seq_len_k",
    "cu_seqlens_q",
    "cu_seqlens_k",
    "page_table",
    "swa_page_table",
)
# What a chunk of local attention attends to.
LOCAL = ("local_query_start_loc", "local_seqused_k", "local_block_table", "local_max_query_len")
# What a buffer holds that nobody filled: no length of a batch.
STALE = 3


class Fork(FlashAttentionBackend):
    """A fork's subclass, which may override anything."""


def _runner(server: dict[str, Any], **more: Any) -> Any:
    runner = backends.model_runner(**server)
    runner.attn_cp_size = runner.tp_size = 1
    # In later trees.
    runner.ps = SimpleNamespace(attn_cp_size=1, attn_dp_size=1, attn_tp_size=1, tp_size=1)
    runner.kv_cache_dtype_str = "auto"
    runner.kv_index_translator = SimpleNamespace(is_translating=False)
    runner.attention_chunk_size = 64
    runner.is_hybrid_swa = False
    runner.token_to_kv_pool.swa_layer_nums = 1
    for name, value in {
        "is_local_attention_model": False,
        "hf_text_config": SimpleNamespace(num_attention_heads=backends.HEADS, attn_logit_softcapping=None),
        **more,
    }.items():
        setattr(runner.model_config, name, value)
    for name, default in {
        "kv_cache_dtype": "auto",
        "is_embedding": False,
        "disable_radix_cache": False,
        "enable_prefill_cp": False,
        # What a plain decode's kernels plan is nothing that a CPU has.
        "enable_dp_attention": True,
    }.items():
        setattr(runner.server_args, name, default)
    return runner


def _backend(server: dict[str, Any], step: int = 0, **more: Any) -> Any:
    with backends.OnCpu():
        made = FlashAttentionBackend(
            _runner(_of_runner(server), **{"is_local_attention_model": server.get("local", False), **more}),
            speculative_step_id=step,
            topk=server.get("topk", 1),
            speculative_num_steps=server.get("steps", 3),
        )
    made.fa_impl_ver = server.get("version", 3)
    return made


def _of_runner(server: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a backend is told otherwise."""
    return {name: value for name, value in server.items() if name not in {"local", "version"}}


def _disable(patches: str) -> None:
    os.environ["PATCHKIT_DISABLE"] = patches


@repeatable
def replays(session: dict[str, Any], mirror: str, disable: str = "") -> dict[str, Any]:
    """Capture a graph of each size, then replay the batches one after the other on the same backend.

    ``mirror`` is what a replay is handed for the host's lengths: the ``true`` ones, ``none``, or ``stale`` ones,
    as where a buffer was not filled. ``disable`` names patches that are off.
    """
    _disable(disable)
    server, mode, graphs = session["server"], session["mode"], session["graphs"]
    backend = _backend(server, session["step"])
    stride = server["draft_tokens"] if mode in {"verify", "extend v1", "extend v2"} else 1

    def full(bs: int) -> Any:
        return backends.spec_info(mode, accepted=[stride] * bs, stride=stride)

    made = backends.Graphs(backend, mode, graphs, tokens=stride, spec=full, fields=FIELDS)
    results = []
    for batch in session["batches"]:
        bs = batch["graph"]
        state = backends.GraphInputs(backend, made.largest, batch)
        accepted = [*batch["accepted"], *[1] * (bs - len(batch["accepted"]))]
        spec = backends.spec_info(mode, accepted=accepted, stride=batch["stride"])
        lens = {"true": state.lens_cpu, "none": None, "stale": torch.full_like(state.lens_cpu, STALE)}
        written = torch.arange(len(batch["lens"]) * stride) % (server["context"] // 2)
        reads = backends.reads_of_replay(
            backend, mode, bs, state, spec, lens_cpu=lens[mirror], written=written
        )
        replayed = made.replayed(bs, backend.forward_metadata, reads)
        buffer = getattr(backend, "swa_out_cache_loc_buf", None)
        results.append(replayed | {"written": backends.plain(buffer)})
    return {"captured": made.captured, "replayed": results}


@functools.cache
def _own_fill(module: Any) -> Any:
    return module.fill


@repeatable
def steps(session: dict[str, Any], count: int, mirror: str, disable: str = "") -> list[dict[str, Any]]:
    """Capture graphs of a draft of so many steps, replay the batches, and return what each step's graph was given.

    ``mirror`` and ``disable`` are as in `replays`. The last step has no forward.
    """
    _disable(disable)
    server, graphs = session["server"], session["graphs"]
    with backends.OnCpu():
        draft = FlashAttentionMultiStepBackend(_runner(_of_runner(server)), 1, count)
        draft.init_cuda_graph_state(max(graphs), max(graphs))
    made = draft.attn_backends[: count - 1]
    captured = {}
    for bs in sorted(graphs, reverse=True):
        draft_steps.prepare(draft, backends.GraphInputs(made[0], max(graphs)), bs, in_capture=True)
        captured[bs] = [backends.pointers(step.forward_metadata, FIELDS) for step in made]
    fills = []
    module: Any = sys.modules.get("patchkit.backends.flash_attention")
    if module is not None:
        fill = _own_fill(module)
        module.fill = lambda *given: fills.append(fill(*given))
    results = []
    for batch in session["batches"]:
        state = backends.GraphInputs(made[0], max(graphs), batch)
        if mirror == "stale":
            state.lens_cpu.fill_(STALE)
        fills.clear()
        reads = backends.HostReads()
        with reads:
            draft_steps.prepare(draft, state, batch["graph"], mirror=mirror != "none")
        metadata = [step.forward_metadata for step in made]
        results.append(
            {
                "steps": [backends.fields_of(one, FIELDS) for one in metadata],
                "in_place": [backends.pointers(one, FIELDS) for one in metadata] == captured[batch["graph"]],
                "fills": len(fills),
                "host_reads": reads.count,
            }
        )
    return results


@repeatable
def eager(
    server: dict[str, Any], mode: str, batch: dict[str, Any], step: int = 0, mirror: bool = True
) -> dict[str, Any]:
    """Plan a batch without a graph; one without the mirror extends all requests alike, as a v2 draft-extend does."""
    backend = _backend(server, step)
    planned = backends.eager_batch(backend, server, mode, batch, mirror=mirror)
    if not mirror and planned.extend_seq_lens is not None:
        planned.extend_seq_lens_cpu = list(batch["accepted"])
    planned.encoder_lens = None
    reads = backends.HostReads()
    with backends.OnCpu(), reads:
        backend.init_forward_metadata(planned)
    planned_fields: dict[str, Any] = backends.fields_of(backend.forward_metadata, FIELDS)
    chunks = getattr(backend.forward_metadata, "local_attn_metadata", None)
    return planned_fields | {
        "host_reads": reads.count,
        "local": None if chunks is None else backends.fields_of(chunks, LOCAL),
    }


# What attends to a token's own branch; lengths that never change are a graph's own.
BRANCH_FIELDS = ("cache_seqlens_int32", "max_seq_len_q", "cu_seqlens_q", "cu_seqlens_k", "page_table")


def _tree(batch: dict[str, Any], tokens: int, *, small: bool) -> dict[str, torch.Tensor]:
    """Return a verify's mask, over the draft tokens alone or over the context, and its positions."""
    count = len(batch["lens"])
    drawn = torch.Generator().manual_seed(sum(batch["lens"]))
    seen = torch.rand(count, tokens, tokens, generator=drawn).lt(0.5).tril()
    seen[:, :, 0] = seen[:, range(tokens), range(tokens)] = True
    prefixes = [0 if small else length for length in batch["lens"]]
    rows = [
        torch.cat([torch.ones(tokens, prefix, dtype=torch.bool), own], dim=1).flatten()
        for prefix, own in zip(prefixes, seen, strict=True)
    ]
    return {"custom_mask": torch.cat(rows), "positions": torch.zeros(count * tokens, dtype=torch.int64)}


def _written(server: dict[str, Any], batch: dict[str, Any]) -> torch.Tensor:
    """Return the slots that the branches of a draft write, step after step, behind a page's part of the prefix."""
    steps, topk, size = server["steps"], server["topk"], server["page_size"]
    branch = torch.arange(batch["graph"] * topk)
    lens = torch.tensor([*batch["lens"], *[1] * (batch["graph"] - len(batch["lens"]))])
    first: torch.Tensor = (3 + 7 * branch) * size + (lens % size).repeat_interleave(topk)
    return (first[:, None] + torch.arange(steps)).flatten()


def _compiled_by_nobody() -> None:
    module: Any = sys.modules[FlashAttentionBackend.__module__]
    compiled = module.draft_decode_set_expand_metadata
    module.draft_decode_set_expand_metadata = getattr(compiled, "_torchdynamo_orig_callable", compiled)


@repeatable
def branches(session: dict[str, Any], mirror: str, small: bool, disable: str) -> list[dict[str, Any]]:
    """Capture graphs of a draft's decode or a verify with several branches, and return what each replay planned.

    ``small``: whether the mask is over the draft tokens alone.
    """
    _disable(disable)
    _compiled_by_nobody()
    server, mode = session["server"], session["mode"]
    backend = _backend(server, session["step"])
    tokens = server["draft_tokens"] if mode == "verify" else server["topk"]

    def spec(batch: dict[str, Any] | None = None) -> Any:
        made = backends.spec_info(mode, stride=server["draft_tokens"], topk=server["topk"])
        if mode == "verify" and batch is not None:
            vars(made).update(_tree(batch, tokens, small=small))
        return made

    full = backends.Graphs(
        backend, mode, session["graphs"], tokens=tokens, spec=lambda _: spec(), fields=FIELDS
    )
    held = "draft_decode" if mode == "draft decode" else "target_verify"
    own = getattr(backend, f"{held}_metadata_topk_expand")
    places = {bs: backends.pointers(own[bs], BRANCH_FIELDS) for bs in session["graphs"]}
    results = []
    for batch in session["batches"]:
        bs = batch["graph"]
        state = backends.GraphInputs(backend, full.largest, batch)
        reads = backends.reads_of_replay(
            backend,
            mode,
            bs,
            state,
            spec(batch),
            lens_cpu={"true": state.lens_cpu, "none": None}[mirror],
            written=_written(server, batch) if mode == "draft decode" else None,
        )
        expand = backend.forward_metadata_spec_decode_expand
        replayed = full.replayed(bs, backend.forward_metadata, reads)
        results.append(
            replayed
            | {
                "own": backends.fields_of(expand, BRANCH_FIELDS),
                "in_place": replayed["in_place"] and backends.pointers(expand, BRANCH_FIELDS) == places[bs],
            }
        )
    return results


@repeatable
def branch_steps(session: dict[str, Any], mirror: bool) -> list[dict[str, Any]]:
    """Capture graphs of a draft of several branches, and return what each step of each replay was given."""
    _disable("")
    _compiled_by_nobody()
    server, graphs = session["server"], session["graphs"]
    count, topk = server["steps"], server["topk"]
    with backends.OnCpu():
        draft = FlashAttentionMultiStepBackend(_runner(_of_runner(server)), topk, count)
        draft.init_cuda_graph_state(max(graphs), max(graphs) * topk)
    made = draft.attn_backends[: count - 1]

    def given(step: Any, bs: int) -> tuple[Any, Any]:
        return step.draft_decode_metadata_topk_normal[bs], step.draft_decode_metadata_topk_expand[bs]

    captured = {}
    for bs in sorted(graphs, reverse=True):
        state = backends.GraphInputs(made[0], max(graphs))
        empty = {"lens": [], "graph": bs}
        draft_steps.prepare(draft, state, bs, in_capture=True, written=_written(server, empty))
        captured[bs] = [backends.pointers(each, BRANCH_FIELDS) for step in made for each in given(step, bs)]
    results = []
    for batch in session["batches"]:
        bs = batch["graph"]
        state = backends.GraphInputs(made[0], max(graphs), batch)
        reads = backends.HostReads()
        with reads:
            draft_steps.prepare(draft, state, bs, mirror=mirror, written=_written(server, batch))
        places = [backends.pointers(each, BRANCH_FIELDS) for step in made for each in given(step, bs)]
        results.append(
            {
                "steps": [
                    [backends.fields_of(each, BRANCH_FIELDS) for each in given(step, bs)] for step in made
                ],
                "current": all(step.forward_metadata is given(step, bs)[0] for step in made),
                "in_place": places == captured[bs],
                "tables": len({given(step, bs)[0].page_table.data_ptr() for step in made}),
                "host_reads": reads.count,
            }
        )
    return results


@repeatable
def eager_tree(server: dict[str, Any], batch: dict[str, Any], *, mirror: bool, small: bool) -> dict[str, Any]:
    """Plan a verify of several branches without a graph; ``small`` is as in `branches`."""
    _disable("")
    backend = _backend(server)
    planned = backends.eager_batch(backend, server, "verify", batch, mirror=mirror)
    planned.encoder_lens = None
    vars(planned.spec_info).update(_tree(batch, server["draft_tokens"], small=small))
    reads = backends.HostReads()
    with backends.OnCpu(), reads:
        backend.init_forward_metadata(planned)
    prefix: dict[str, Any] = backends.fields_of(backend.forward_metadata, FIELDS)
    own = backends.fields_of(backend.forward_metadata_spec_decode_expand, BRANCH_FIELDS)
    return prefix | {"own": own, "host_reads": reads.count}


def layers(
    kind: str,
    mode: str,
    forwards: list[int],
    *,
    disable: str = "",
    dp: bool = False,
    own_kernels: str = "1",
    more: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Let layers attend, and return what the kernel and its planner were given.

    ``forwards``: how many layers each forward on one and the same metadata has. ``dp``: under data-parallel attention.
    ``own_kernels``: whether the kernel comes from where the planner does. ``more``: what the layers differ in.
    """
    _disable(disable)
    os.environ["SGLANG_USE_SGL_FA3_KERNEL"] = own_kernels
    assert envs.SGLANG_USE_SGL_FA3_KERNEL.get() is (own_kernels == "1")
    backend = _made(kind)
    server = {"draft_tokens": 4, "topk": backend.topk}
    batch = backends.eager_batch(
        backend, server, mode, {"rows": [3, 9, 5], "lens": [40, 51, 17], "accepted": [4, 4, 4]}
    )
    batch.encoder_lens = None
    # The plan of a plain decode is made with the metadata, which is not what this is about.
    backend._get_scheduler_metadata = None
    with backends.OnCpu():
        backend.init_forward_metadata(batch)
    backend._disable_scheduler_metadata_precompute = dp
    planned: list[dict[str, Any]] = []

    def planner(**arguments: Any) -> torch.Tensor:
        planned.append({name: _plain(value) for name, value in arguments.items()})
        return torch.tensor([len(planned)])

    backend._get_scheduler_metadata = planner
    cache = torch.zeros(2, 4096, backends.HEADS, backends.HEAD_DIM, dtype=torch.bfloat16)
    batch.token_to_kv_pool = backend.token_to_kv_pool = SimpleNamespace(
        get_kv_buffer=lambda layer: cache, set_kv_buffer=lambda *_: None
    )
    calls: list[dict[str, Any]] = []
    width = backends.HEADS * backends.HEAD_DIM
    rows = batch.input_ids.shape[0] if mode != "decode" else 3
    projection = torch.arange(rows * 3 * width).reshape(rows, 3 * width).to(torch.bfloat16)
    query, key, value = projection.split(width, dim=1)

    def kernel(**arguments: Any) -> torch.Tensor:
        given = arguments["q"]
        plan = arguments.get("scheduler_metadata")
        calls.append(
            {
                "copied": given.data_ptr() != projection.data_ptr(),
                "same": torch.equal(given.flatten(1), query),
                "plan": None if plan is None else int(plan),
                "asks": {
                    "batch_size": arguments["cache_seqlens"].shape[0],
                    "max_seqlen_q": arguments["max_seqlen_q"],
                    "max_seqlen_k": arguments["page_table"].shape[1] * arguments["k_cache"].shape[1],
                    "num_heads": given.shape[1],
                    "num_heads_k": arguments["k_cache"].shape[2],
                    "headdim": given.shape[2],
                    "qkv_dtype": str(given.dtype),
                    "page_size": arguments["k_cache"].shape[1],
                    "causal": arguments["causal"],
                    "has_softcap": arguments["softcap"] > 0,
                    "num_splits": arguments["num_splits"],
                    "cache_seqlens": _plain(arguments["cache_seqlens"]),
                    "cu_seqlens_q": _plain(arguments["cu_seqlens_q"]),
                },
            }
        )
        return torch.zeros_like(given)

    module: Any = sys.modules[FlashAttentionBackend.__module__]
    module.flash_attn_with_kvcache = kernel
    attend = backend.forward_decode if mode == "decode" else backend.forward_extend
    for count in forwards:
        for number in range(count):
            attend(query, key, value, _layer(number, **(more or {})), batch)
    return {"calls": calls, "planned": planned}


def _plain(value: Any) -> Any:
    return (
        value.tolist()
        if isinstance(value, torch.Tensor)
        else str(value)
        if isinstance(value, torch.dtype)
        else value
    )


def _layer(number: int, **more: Any) -> Any:
    heads = dict.fromkeys(("tp_q_head_num", "tp_k_head_num", "tp_v_head_num"), backends.HEADS)
    dims = dict.fromkeys(("head_dim", "qk_head_dim", "v_head_dim"), backends.HEAD_DIM)
    plain = {
        "layer_id": number,
        "sliding_window_size": -1,
        "is_cross_attention": False,
        "attn_type": AttentionType.DECODER,
        "scaling": 1.0,
        "logit_cap": 0.0,
        "k_scale": None,
        "v_scale": None,
    }
    return SimpleNamespace(**heads | dims | plain | more)


def made(kind: str, server: dict[str, Any]) -> Any:
    """Return a backend of a kind that its metadata depends on."""
    if kind == "top-k 4":
        return _backend(server | {"topk": 4})
    if kind == "latent":
        return _backend(server | {"mla": True})
    if kind == "window":
        return _backend(server | {"window": 16})
    if kind == "two pools":
        return _backend(server | {"swa": True})
    if kind == "local":
        return _backend(server | {"local": True})
    if kind == "cross":
        return _backend(server, is_encoder_decoder=True)
    if kind == "fork":
        return Fork(_runner(server))
    if kind == "version 4":
        return _backend(server | {"version": 4})
    if ", " in kind:
        of: dict[str, dict[str, Any]] = {
            "latent": {"mla": True},
            "local": {"local": True},
            "top-k 4": {"topk": 4},
            "two pools": {"swa": True, "window": 16},
            "version 4": {"version": 4},
            "window": {"window": 16},
        }
        one, other = kind.split(", ")
        return _backend(server | of[one] | of[other])
    return _backend(server)


def _made(kind: str) -> Any:
    return made(kind, {"context": 64, "page_size": 16})


def keeps_mirror(kinds: list[str], disable: str = "") -> dict[str, Any]:
    """Return what each kind of backend says about itself, and what a draft of such steps says."""
    _disable(disable)
    flags: dict[str, Any] = {kind: getattr(_made(kind), "needs_cpu_seq_lens", None) for kind in kinds}
    server: dict[str, Any] = {"context": 64, "page_size": 16}
    for topk, steps in ((1, 3), (4, 3), (1, 1)):
        with backends.OnCpu():
            draft = FlashAttentionMultiStepBackend(_runner(server | {"topk": topk}), topk, steps)
        flags[f"draft of {steps} steps, top-k {topk}"] = getattr(draft, "needs_cpu_seq_lens", None)
    return flags


def captures_draft_extend(
    kinds: list[str],
    *,
    cuda: bool,
    environment: dict[str, str],
    token_map: str | None = None,
    mrope: bool = False,
    layers: list[int] | None = None,
) -> dict[str, bool]:
    """Return, for each kind of draft-extend backend, whether a v2 worker captures it in a graph.

    ``layers`` are those of the target whose states an EAGLE3 draft reads.
    """

    def backend(kind: str) -> Any:
        return (
            backends.target(kind, {"context": 64, "page_size": 1 if kind == "triton" else 16}, None)
            if kind in {"triton", "mha", "mla"}
            else _made(kind)
        )

    extends = {kind: backend(kind) for kind in kinds}
    return captures(
        extends, cuda=cuda, environment=environment, token_map=token_map, mrope=mrope, layers=layers
    )


def _of_layers(layers: list[int] | None) -> SimpleNamespace:
    """Return a runner of a model whose configuration names the target's layers that it reads, if it reads any."""
    named = {} if layers is None else {"eagle_config": {"eagle_aux_hidden_state_layer_ids": layers}}
    return SimpleNamespace(model_config=SimpleNamespace(hf_config=SimpleNamespace(**named), hidden_size=8))


def width_of_states(layers: list[int]) -> int | None:
    """Return how wide the hidden states are that the runner of a draft-extend's graphs has room for.

    None in trees that do not ask the target: those know one number of layers, or ask the draft.
    """
    size = getattr(getattr(eagle_info, "EagleDraftExtendInput", None), "hidden_size_for", None)
    worker = SimpleNamespace(
        speculative_algorithm=algorithms.SpeculativeAlgorithm.EAGLE3,
        eagle_use_aux_hidden_state=True,
        target_worker=SimpleNamespace(model_runner=_of_layers(None)),
        draft_runner=_of_layers(layers),
    )
    return None if size is None else int(size(worker))


def captures(
    extends: dict[str, Any],
    *,
    cuda: bool,
    environment: dict[str, str],
    token_map: str | None = None,
    mrope: bool = False,
    layers: list[int] | None = None,
) -> dict[str, bool]:
    """Return, for each draft-extend backend, by name, whether a v2 worker captures it in a graph."""
    os.environ.update(environment)
    eagle_worker_v2._is_cuda = cuda
    eagle_worker_v2._is_musa = eagle_worker_v2._is_hip = eagle_worker_v2._is_npu = False
    for name in ("EAGLEDraftCudaGraphRunner", "EAGLEDraftExtendCudaGraphRunner"):
        setattr(eagle_worker_v2, name, lambda worker: "graph")
    eagle_worker_v2.get_available_gpu_memory = lambda *_: 1.0
    eagle_worker_v2.get_batch_sizes_to_capture = lambda *_: ([1], [1])
    captured = {}
    for kind, backend in extends.items():
        worker = object.__new__(eagle_worker_v2.EagleDraftWorker)
        vars(worker).update(
            server_args=SimpleNamespace(
                disable_cuda_graph=False,
                model_impl="auto",
                decode_attention_backend=None,
                speculative_num_steps=1,
                speculative_num_draft_tokens=2,
                speculative_token_map=token_map,
                cuda_graph_config=SimpleNamespace(decode=SimpleNamespace(backend="full")),
            ),
            speculative_num_steps=1,
            speculative_num_draft_tokens=2,
            device="cuda",
            gpu_id=0,
            target_worker=SimpleNamespace(device="cuda", model_runner=_of_layers(None)),
            draft_attn_backend=None,
            draft_runner=SimpleNamespace(model_is_mrope=mrope, **vars(_of_layers(layers))),
            eagle_use_aux_hidden_state=layers is not None,
            draft_extend_attn_backend=backend,
        )
        # Later trees capture other graphs first, by what a GPU has.
        getattr(worker, "_capture_cuda_graphs", worker.init_cuda_graphs)()
        captured[kind] = worker.cuda_graph_runner_for_draft_extend == "graph"
    return captured
