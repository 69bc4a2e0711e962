"""What functions of later releases do on a server with sglang's default settings: top-k 1, no plan stream, one rank.

Their classes are made without their constructors, which ask for a whole server: what a function asks of its object
and is not set here is None, which is what is off.
"""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import torch
from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from .recorders import on_device, plain

if TYPE_CHECKING:
    from collections.abc import Callable

HEADS, DIM, TOKENS, ROW, CONTEXT, REQUESTS = 2, 8, 4, 216, 200, 24
ROWS = [3, 9, 5]


class _Reached(Exception):  # noqa: N818 - what follows needs a GPU, and nothing has failed.
    """The place behind the code of patches."""


class _Stop:
    """A context in which nothing runs."""

    def __enter__(self) -> None:
        raise _Reached

    def __exit__(self, *_: object) -> None:
        """Nothing was entered."""


def _reached(*_: Any, **__: Any) -> Any:
    raise _Reached


def _off(kind: type, **given: Any) -> Any:
    """Return an object of a class of the tree; each attribute that is not given or the class's own is None."""
    setattr(kind, "__getattr__", lambda *_: None)  # noqa: B010 - no such attribute for mypy.
    made: Any = object.__new__(kind)
    for name, value in given.items():
        object.__setattr__(made, name, value)
    return made


def _called(function: Callable[..., Any], **known: Any) -> Any:
    """Call a function with those of its parameters that are known; each other one without a default is None."""
    parameters = inspect.signature(function).parameters.values()
    given = {
        parameter.name: known.get(parameter.name)
        for parameter in parameters
        if parameter.name in known
        or (parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD)
    }
    return function(**given)


def _answering(module: Any, **answers: Any) -> None:
    """Have the functions that a module asks for settings return an answer; it asks only some of them."""
    for name, answer in answers.items():
        if hasattr(module, name):
            setattr(module, name, lambda *_, answer=answer, **__: answer)


def _spec(count: int, mode: ForwardMode, lens: list[int]) -> Any:
    mask = torch.ones(TOKENS * (sum(lens) + count * TOKENS), dtype=torch.bool)
    return SimpleNamespace(
        custom_mask=mask if mode.is_target_verify() else None,
        draft_token_num=TOKENS,
        num_tokens_per_req=TOKENS,
        num_accept_tokens=torch.full((count,), TOKENS, dtype=torch.int32),
        kv_indptr=None,
        is_draft_input=lambda: False,
        is_verify_input=mode.is_target_verify,
    )


def _batch(mode: str, lens: list[int], *, mirror: bool) -> Any:
    """Return a forward batch; an idle one has no requests, and a verify no lengths of an extend."""
    kind, count = ForwardMode[mode], len(lens)
    extends = kind.is_draft_extend_v2() or (kind.is_extend() and not kind.is_target_verify())
    prefixes = [length - TOKENS for length in lens]
    return SimpleNamespace(
        forward_mode=kind,
        batch_size=count,
        input_ids=torch.zeros(count * TOKENS, dtype=torch.int64),
        req_pool_indices=torch.tensor(ROWS[:count], dtype=torch.int64),
        seq_lens=torch.tensor(lens, dtype=torch.int64),
        seq_lens_cpu=torch.tensor(lens, dtype=torch.int64) if mirror else None,
        seq_lens_sum=sum(lens) if mirror else None,
        extend_prefix_lens=torch.tensor(prefixes, dtype=torch.int32) if extends else None,
        extend_prefix_lens_cpu=prefixes if extends and mirror else None,
        extend_seq_lens=torch.tensor([TOKENS] * count, dtype=torch.int32) if extends else None,
        extend_seq_lens_cpu=[TOKENS] * count if extends else None,
        extend_num_tokens=count * TOKENS if extends else None,
        spec_info=None if mode in {"DECODE", "EXTEND", "IDLE"} else _spec(count, kind, lens),
        spec_algorithm=SpeculativeAlgorithm.EAGLE,
        encoder_lens=None,
        out_cache_loc=torch.arange(count * TOKENS),
        _attn_output=None,
        mha_one_shot=False,
        attn_attend_prefix_cache=None,
        kv_loc_plan=None,
        attn_cp_metadata=None,
    )


def _pool_rows() -> torch.Tensor:
    return torch.arange(REQUESTS * ROW, dtype=torch.int32).reshape(REQUESTS, ROW)


def _triton() -> Any:
    module: Any = import_module("sglang.srt.layers.attention.triton_backend")
    rows = _pool_rows()

    def fill(*given: Any) -> torch.Tensor:
        # Later releases also give a plan of locations.
        count, lens, requests, indices = given[-4:]
        offsets: torch.Tensor = made.kv_indptr[: count + 1]
        offsets[1:] = torch.cumsum(lens, dim=0)
        with torch._C.DisableTorchFunctionSubclass():
            filled = [
                rows[row, :length] for row, length in zip(requests.tolist(), lens.tolist(), strict=True)
            ]
            if filled:
                indices[: sum(map(len, filled))] = torch.cat(filled)
        return offsets

    made = _off(
        module.TritonAttnBackend,
        device="cpu",
        req_to_token=rows,
        req_to_token_pool=SimpleNamespace(req_to_token=rows, size=REQUESTS),
        max_context_len=CONTEXT,
        num_draft_tokens=TOKENS,
        speculative_num_steps=TOKENS - 1,
        topk=1,
        skip_prefill=False,
        kv_indptr=torch.zeros(REQUESTS + 1, dtype=torch.int32),
        qo_indptr=torch.zeros(REQUESTS + 1, dtype=torch.int32),
        mask_indptr=torch.zeros(REQUESTS + 1, dtype=torch.int64),
        num_head=HEADS,
        num_kv_head=HEADS,
        v_head_dim=DIM,
        max_kv_splits=8,
        dcp_size=1,
        lean_total_programs=1,
        lean_block_m=1,
        page_size=1,
        _fill_kv_indptr_and_indices=fill,
        # Nothing is translated: what looks rows up is their numbers.
        kv_index_translator=SimpleNamespace(
            is_translating=False,
            make_capture_tables=lambda **_: None,
            build_index_table=lambda req_pool_indices, **_: req_pool_indices,
            index_table_for_batch=lambda batch: batch.req_pool_indices,
        ),
        get_num_kv_splits=lambda *_: None,
        _target_verify_num_tokens_per_req=lambda *_: TOKENS,
    )
    return made


_METADATA = ("max_extend_len", "kv_indptr", "qo_indptr", "custom_mask", "mask_indptr")


def triton(mode: str, lens: list[int], *, mirror: bool = True) -> dict[str, Any]:
    """Plan an eager batch of Triton's backend; return what its kernels read."""
    backend = _triton()
    backend.init_forward_metadata(_batch(mode, lens, mirror=mirror))
    planned = backend.forward_metadata
    read = {name: plain(getattr(planned, name)) for name in _METADATA}
    return read | {"kv_indices": plain(planned.kv_indices)[: read["kv_indptr"][-1]]}


def triton_graph(mode: str, lens: list[int], graph: int) -> dict[str, Any]:
    """Replay a graph of Triton's backend for as many requests as it has; return what its kernels read."""
    backend = _triton()
    tokens = graph * TOKENS
    # A mask's owner in later releases; earlier ones keep it themselves.
    backend._verify_mask = SimpleNamespace(buffer=torch.zeros(tokens * (ROW + TOKENS), dtype=torch.bool))
    backend.init_cuda_graph_state(graph, tokens)
    batch = _batch(mode, lens, mirror=True)
    known = {"bs": len(lens), "seq_lens": batch.seq_lens, "req_pool_indices": batch.req_pool_indices}
    known |= {"forward_mode": batch.forward_mode, "spec_info": batch.spec_info, "plan": None}
    known["index_table"] = batch.req_pool_indices
    _called(backend._apply_cuda_graph_metadata, **known)
    # Where patches fill several buffers in one launch, the tree's own function is asked as well.
    own = _called(backend._update_target_verify_buffers, **known)
    names = ("kv_indptr", "qo_indptr", "mask_indptr")
    read = {name: plain(getattr(backend, name)[: len(lens) + 1]) for name in names}
    mask = plain(own[2]) if own[2] is not None else None
    used = TOKENS * (sum(lens) + len(lens) * TOKENS)
    return read | {
        "kv_indices": plain(backend.cuda_graph_kv_indices)[: read["kv_indptr"][-1]],
        "mask": None if mask is None else [int(each) for each in mask[:used]],
    }


def _layer() -> Any:
    return SimpleNamespace(
        layer_id=0,
        qk_head_dim=DIM,
        head_dim=DIM,
        v_head_dim=DIM,
        tp_q_head_num=HEADS,
        tp_k_head_num=HEADS,
        tp_v_head_num=HEADS,
        sliding_window_size=-1,
        is_cross_attention=False,
        attn_type=None,
        logit_capping_method="tanh",
        logit_cap=0.0,
        scaling=1.0,
        k_scale=None,
        v_scale=None,
        xai_temperature_len=-1,
    )


def _projected(count: int) -> list[torch.Tensor]:
    """Return queries, keys and values as a fused projection leaves them: views of it."""
    projection = torch.arange(count * 3 * HEADS * DIM).to(torch.bfloat16).reshape(count, -1)
    return list(projection.chunk(3, dim=1))


def _pool() -> Any:
    cache = torch.zeros(512, 1, HEADS, DIM, dtype=torch.bfloat16)
    return SimpleNamespace(
        get_key_buffer=lambda *_: cache,
        get_value_buffer=lambda *_: cache,
        get_kv_buffer=lambda *_: (cache, cache),
        set_kv_buffer=lambda *_: None,
        translate_loc_from_full_to_swa=None,
    )


def triton_layer(mode: str, lens: list[int]) -> list[Any]:
    """Let a layer of Triton's backend attend; return the values that its kernel is given."""
    backend = _triton()
    batch = _batch(mode, lens, mirror=True)
    backend.init_forward_metadata(batch)
    batch.token_to_kv_pool = backend.token_to_kv_pool = _pool()
    got: list[Any] = []

    def kernel(*given: Any, **_: Any) -> None:
        got.extend(plain(each) for each in given if isinstance(each, torch.Tensor) and each.dim() == 3)

    backend.extend_attention_fwd = backend._forward_extend_kernel = kernel
    backend._can_run_dense_fp8_chunked_mha = lambda *_: False
    query, keys, values = _projected(len(batch.input_ids))
    heads = (HEADS, DIM)
    given = (query, keys.unflatten(1, heads), values.unflatten(1, heads))
    backend.forward_extend(*given, _layer(), batch, save_kv_cache=False)
    # Behind them is the output, which the kernel would fill.
    return got[:3]


def flash_layer(mode: str, lens: list[int]) -> dict[str, Any]:
    """Let a layer of FlashAttention attend; return what its kernel is given."""
    module: Any = import_module("sglang.srt.layers.attention.flashattention_backend")
    _answering(module, is_cp_active=False, is_cp_v2_active=False, is_cp_enabled=False)
    backend = _off(
        module.FlashAttentionBackend,
        device="cpu",
        topk=1,
        page_size=1,
        use_mla=False,
        fa_impl_ver=3,
        num_splits=0,
        req_to_token=_pool_rows(),
        token_to_kv_pool=_pool(),
        kv_cache_dtype_str="auto",
        attn_cp_size=1,
    )
    cache = backend.token_to_kv_pool.get_key_buffer()
    vars(backend).update(
        get_paged_mha_kv_cache=lambda *_: (cache, cache),
        prepare_paged_mha_query=lambda q, q_rope, k_rope, *_, **__: (q, q_rope, k_rope, None, None),
        _mxfp8_sf_kwargs=lambda *_: {},
    )
    batch, count = _batch(mode, lens, mirror=True), len(lens)
    batch.token_to_kv_pool = backend.token_to_kv_pool
    tokens = 1 if mode == "DECODE" else TOKENS
    ends = torch.tensor([0, *lens]).cumsum(0, dtype=torch.int32)
    backend.forward_metadata = SimpleNamespace(
        cache_seqlens_int32=torch.tensor(lens, dtype=torch.int32),
        max_seq_len_q=tokens,
        max_seq_len_k=max(lens),
        cu_seqlens_q=torch.arange(0, count * tokens + 1, tokens, dtype=torch.int32),
        cu_seqlens_k=ends,
        page_table=_pool_rows()[ROWS[:count], : max(lens)],
        **dict.fromkeys(
            (
                *("swa_page_table", "swa_spec_metadata", "scheduler_metadata", "local_attn_metadata"),
                *("image_token_ranges", "swa_out_cache_loc", "pa_swa_page_table", "rel_bias_prep_cache"),
            )
        ),
    )
    calls: list[dict[str, Any]] = []

    def kernel(**given: Any) -> torch.Tensor:
        calls.append({name: plain(given[name]) for name in sorted(given) if "cache" not in name})
        queries: torch.Tensor = given["q"]
        return queries

    module.flash_attn_with_kvcache = kernel
    backend.flash_attn_with_kvcache = kernel
    query, keys, values = _projected(count * tokens)
    forward = backend.forward_decode if mode == "DECODE" else backend.forward_extend
    forward(query, keys, values, _layer(), batch, save_kv_cache=False)
    # What plans a kernel once for several layers is no result of a layer.
    left_out = ("scheduler_metadata", "out")
    (call,) = calls
    return {name: value for name, value in call.items() if name not in left_out}


def positions(mode: str, lens: list[int], *, mirror: bool = True) -> dict[str, Any]:
    """Compute the positions of text in a model with positions of images, for a decode or an extend."""
    module: Any = import_module("sglang.srt.model_executor.forward_batch_info")
    rl = SimpleNamespace(rl_on_policy_target=None)
    settings = SimpleNamespace(rl_on_policy_target=None, deterministic=rl)
    _answering(module, get_exec=settings, get_global_server_args=settings, get_server_args=settings)
    prefixes = [length - TOKENS for length in lens]
    made = _off(
        ForwardBatch,
        forward_mode=ForwardMode[mode],
        seq_lens=on_device(lens),
        seq_lens_cpu=torch.tensor(lens) if mirror else None,
    )
    batch = SimpleNamespace(
        multimodal_inputs=[None] * len(lens),
        extend_seq_lens=[TOKENS] * len(lens),
        extend_prefix_lens=prefixes,
        extend_lens=[TOKENS] * len(lens),
        prefix_lens=prefixes,
        reqs=[SimpleNamespace(session=None) for _ in lens],
    )
    made._compute_mrope_positions(SimpleNamespace(device="cpu"), batch)
    return {"positions": plain(made.mrope_positions)}


def starts(kind: str) -> str:
    """Have a scheduler start its workers, with a draft's or without; return how far it came."""
    module: Any = import_module("sglang.srt.managers.scheduler")
    _answering(module, get_model=SimpleNamespace(is_startup_weight_load_overlap=False))
    made = _off(
        module.Scheduler,
        draft_worker=None if kind == "none" else SimpleNamespace(plan_stream=None),
        tp_worker=SimpleNamespace(model_runner=SimpleNamespace()),
        server_args=SimpleNamespace(disaggregation_mode="null", is_startup_weight_load_overlap=False),
        init_tp_model_worker=lambda: None,
        maybe_init_draft_worker=lambda: None,
        init_memory_pools=_reached,
        spec_algorithm=Mock(is_none=_reached, is_frozen_kv_mtp=lambda: False),
    )
    try:
        made.init_model_worker()
    except _Reached:
        return "workers"
    raise AssertionError("the scheduler asked for nothing")


def verify_input(lens: list[int], *, mirror: bool = True) -> dict[str, Any]:
    """Build the input of a verify of one branch; return what its tree is built from and the total for its mask."""
    common: Any = import_module("sglang.srt.speculative.eagle_worker_common")
    built: list[Any] = []

    def build(*given: Any, **_: Any) -> tuple[Any, ...]:
        built.append([plain(each) for each in given if not hasattr(each, "name")])
        return (None,) * 6

    common.build_tree_kernel_efficient = build
    batch = _batch("DECODE", lens, mirror=mirror)
    target = SimpleNamespace(
        max_context_len=CONTEXT,
        req_to_token=_pool_rows(),
        verify_mask=None,
        get_verify_buffers_to_fill_after_draft=lambda: (None, None),
    )
    runner = SimpleNamespace(attn_backend=target, model_config=SimpleNamespace(model_is_mrope=False))
    mode = import_module("sglang.srt.speculative.eagle_utils").TreeMaskMode.FULL_MASK
    common.build_eagle_verify_input(
        batch,
        SimpleNamespace(bonus_tokens=torch.zeros(len(lens), dtype=torch.int64)),
        *(torch.zeros(len(lens), TOKENS - 1, dtype=torch.int64) for _ in range(3)),
        *([None] if "draft_probs" in inspect.signature(common.build_eagle_verify_input).parameters else []),
        target_worker=SimpleNamespace(model_runner=runner),
        topk=1,
        num_steps=TOKENS - 1,
        num_draft_tokens=TOKENS,
        tree_mask_mode=mode,
        device="cpu",
    )
    # The first number among the arguments.
    (given,) = built
    at = next(place for place, each in enumerate(given) if isinstance(each, int))
    return {"size": given.pop(at), "built": given}


def trivial_verify_input(lens: list[int], *, mirror: bool = True) -> dict[str, Any]:
    """Build the input of a verify without a draft; return how many elements its mask has, and its positions."""
    module: Any = import_module("sglang.srt.speculative.eagle_worker_v2")
    target = SimpleNamespace(
        max_context_len=CONTEXT,
        req_to_token=_pool_rows(),
        verify_mask=None,
        get_verify_buffers_to_fill_after_draft=lambda: (None, None),
    )
    made = _off(
        module.EAGLEWorkerV2,
        device="cpu",
        topk=1,
        _target_worker=SimpleNamespace(model_runner=SimpleNamespace(attn_backend=target)),
    )
    batch = _batch("DECODE", lens, mirror=mirror)
    batch.spec_info = SimpleNamespace(bonus_tokens=torch.zeros(len(lens), dtype=torch.int64))
    built = made._build_trivial_verify_input(batch)
    return {"size": built.custom_mask.numel(), "positions": plain(built.positions)}


def planned(function: str) -> str:
    """Run a worker's function up to what it plans on a plan stream, of which a server has none by default."""
    place, _, name = function.rpartition(".")
    module: Any = import_module(f"sglang.srt.speculative.{place.partition(':')[0]}")
    owner: Any = getattr(module, place.partition(":")[2], module)
    count = len(ROWS)
    batch = _batch("DECODE", [40, 65, 17], mirror=True)
    batch.spec_info = _spec(count, ForwardMode.TARGET_VERIFY, [40, 65, 17])
    batch.seq_lens_cpu = torch.tensor([40, 65, 17])
    batch.has_grammar, batch.prepared_draft_extend_inputs = False, None
    result = SimpleNamespace(
        logits_output=SimpleNamespace(hidden_states=torch.zeros(count * TOKENS, 2)),
        accept_lens=torch.ones(count, dtype=torch.int64),
        next_token_ids=torch.zeros(count * TOKENS, dtype=torch.int64),
        next_draft_input=SimpleNamespace(),
        prepared_draft_extend_inputs=None,
    )
    for recorder in ("record_stream_for_v2_verify", "record_stream_each"):
        _answering(module, **{recorder: None})
    streams = SimpleNamespace(current_stream=lambda *_: None)
    setattr(torch, "get_device_module", lambda *_: streams)  # noqa: B010 - mypy knows another type.
    known = {"batch": batch, "batch_result": result, "plan_stream": None, "plan_stream_ctx": _Stop()}
    known |= {"device": "cpu", "num_draft_tokens": TOKENS, "topk": 1}
    called = (
        owner
        if owner is module
        else _off(
            owner,
            plan_stream=None,
            plan_stream_ctx=_Stop(),
            device="cpu",
            topk=1,
            speculative_num_steps=TOKENS - 1,
            speculative_num_draft_tokens=TOKENS,
            draft_extend_num_front_tokens=0,
            draft_runner_list=[None],
        )
    )
    try:
        _called(getattr(called, name), **known)
    except _Reached:
        return "planned"
    raise AssertionError("nothing was planned")


def captured(kinds: list[str]) -> list[bool]:
    """Return for each draft-extend backend of a server with defaults whether a worker captures its graph."""
    module: Any = import_module("sglang.srt.speculative.eagle_worker_v2")
    setup = "sglang.srt.speculative.eagle_worker_v2"
    graphs = SimpleNamespace(decode=SimpleNamespace(backend="full"))
    _answering(
        module,
        check_cuda_graph_backend=False,
        get_model=SimpleNamespace(model_impl="auto"),
        get_exec=SimpleNamespace(graph=SimpleNamespace(cuda_graph_config=graphs)),
        get_batch_sizes_to_capture=([1], [1]),
        get_available_gpu_memory=0.0,
        log_info_on_rank0=None,
        get_parallel=SimpleNamespace(pp_group=SimpleNamespace(is_last_rank=True)),
    )
    module._is_cuda, module._is_cpu = True, False
    module.EAGLEDraftExtendCudaGraphRunner = lambda *_: "graph"
    module.EAGLEDraftCudaGraphRunner = lambda *_: "graph"
    names = {
        "triton": ("triton_backend", "TritonAttnBackend"),
        "mha": ("trtllm_mha_backend", "TRTLLMHAAttnBackend"),
        "mla": ("trtllm_mla_backend", "TRTLLMMLABackend"),
    }
    found = []
    for kind in kinds:
        place, name = names[kind]
        backend = _off(getattr(import_module(f"sglang.srt.layers.attention.{place}"), name))
        settings = SimpleNamespace(
            disable_cuda_graph=False,
            model_impl="auto",
            cuda_graph_config=graphs,
            speculative_num_steps=1,
            speculative_num_draft_tokens=2,
        )
        worker = _off(
            getattr(import_module(setup), "EagleDraftWorker"),  # noqa: B009 - as other names are asked for.
            server_args=settings,
            speculative_num_steps=1,
            speculative_num_draft_tokens=2,
            topk=1,
            target_worker=SimpleNamespace(device="cuda"),
            device="cuda",
            gpu_id=0,
            # Text has no multimodal rotary positions.
            draft_runner=Mock(model_is_mrope=False, model_config=Mock(model_is_mrope=False)),
            draft_extend_attn_backend=backend,
            draft_tp_context=lambda *_: nullcontext(),
            _specialized_graph_memory_usage={},
            _specialized_graph_time_usage={},
        )
        worker._capture_cuda_graphs()
        found.append(worker.cuda_graph_runner_for_draft_extend == "graph")
    return found


def future_map() -> dict[str, Any]:
    """Make the map of futures of a server on the CPU; return its fields, and the shapes and types of its buffers."""
    module: Any = import_module("sglang.srt.managers.overlap_utils")
    module._is_cuda = False
    known = {
        "device": "cpu",
        "spec_algo": SpeculativeAlgorithm.EAGLE,
        "needs_cpu_seq_lens": True,
        "req_to_token_pool": SimpleNamespace(req_to_token=_pool_rows(), size=REQUESTS),
    }
    made = _called(module.FutureMap, **known)
    return {
        name: [str(value.dtype), list(value.shape)] if isinstance(value, torch.Tensor) else value
        for name, value in sorted(vars(made).items())
        if value is None or isinstance(value, (torch.Tensor, bool, int, str))
    }


def tracked(requests: int) -> dict[str, Any]:
    """Set the slots in which states are tracked, for requests that all have one."""
    module: Any = import_module("sglang.srt.managers.schedule_batch")
    pool = SimpleNamespace(
        req_index_to_mamba_ping_pong_track_buffer_mapping=torch.arange(REQUESTS * 2).reshape(REQUESTS, 2)
    )
    batch = SimpleNamespace(
        req_to_token_pool=pool,
        req_pool_indices=torch.tensor(ROWS[:requests]),
        reqs=[SimpleNamespace(mamba_next_track_idx=row % 2) for row in range(requests)],
    )
    own = torch.tensor
    torch.tensor = lambda *given, **named: own(
        *given, **{k: v for k, v in named.items() if k != "pin_memory"}
    )
    module.set_mamba_track_indices_from_reqs(batch)
    return {"slots": plain(batch.mamba_track_indices)}


def graph_state(kind: str) -> dict[str, Any]:
    """Allocate what the graphs of an attention backend share; return what is allocated."""
    places = {
        "flash": ("flashattention_backend", "FlashAttentionBackend"),
        "flashmla": ("flashmla_backend", "FlashMLABackend"),
        "mla": ("trtllm_mla_backend", "TRTLLMMLABackend"),
        "dsv4": ("deepseek_v4_backend", "DeepseekV4AttnBackend"),
    }
    place, owner = places[kind]
    module: Any = import_module(f"sglang.srt.layers.attention.{place}")

    def on_cpu(make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given, **named: make(
            *given, **named | ({"device": "cpu"} if "device" in named else {})
        )

    for name in ("arange", "empty", "full", "ones", "zeros"):
        setattr(torch, name, on_cpu(getattr(torch, name)))
    card = SimpleNamespace(multi_processor_count=2)
    setattr(torch.cuda, "get_device_properties", lambda *_: card)  # noqa: B010 - mypy knows another type.
    module.get_mla_metadata = lambda *_, **__: (torch.zeros(2, 8), torch.zeros(5))
    made = _off(
        getattr(module, owner),
        device="cpu",
        topk=1,
        page_size=64,
        max_context_len=CONTEXT,
        req_to_token=_pool_rows(),
        num_draft_tokens=TOKENS,
        speculative_num_draft_tokens=TOKENS,
        speculative_num_steps=TOKENS - 1,
        speculative_step_id=0,
        data_type=torch.bfloat16,
        num_q_heads=HEADS,
        kv_cache_dim=DIM,
        kv_lora_rank=DIM,
        max_num_pages=4,
        skip_prefill=False,
        is_draft_runner=False,
        is_draft_worker=False,
        max_bs=REQUESTS,
        kv_indptr=torch.zeros(REQUESTS + 1, dtype=torch.int32),
        q_indptr_decode=torch.zeros(REQUESTS + 1, dtype=torch.int32),
        sliding_window_size=None,
        cuda_graph_custom_mask=None,
    )
    _called(made.init_cuda_graph_state, max_bs=4, max_num_tokens=4 * TOKENS)
    held = {name for name, value in vars(made).items() if isinstance(value, torch.Tensor)}
    # A mask that no kernel reads is not made.
    return {"held": sorted(held - {"cuda_graph_custom_mask"})}


class _Backend:
    """An attention backend that keeps the lengths that it is given."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    def init_forward_metadata_out_graph(self, view: Any, **_: Any) -> None:
        names = ("batch_size", "req_pool_indices", "seq_lens", "seq_lens_sum", "seq_lens_cpu")
        self.given = {name: plain(getattr(view, name)) for name in names}

    def init_forward_metadata_in_graph(self, *_: Any) -> None:
        """Plan nothing."""


def _draft_extend_runner(kind: str, graph: int) -> Any:
    place = {"eagle": "eagle_draft", "multi-layer": "multi_layer_eagle_draft"}[kind]
    module: Any = import_module(f"sglang.srt.speculative.{place}_extend_cuda_graph_runner")
    owner = {"eagle": "EAGLE", "multi-layer": "MultiLayerEagle"}[kind] + "DraftExtendCudaGraphRunner"
    _answering(module, set_dp_buffer_len=None, set_is_extend_in_batch=None)
    _answering(module, maybe_flashinfer_autotune_speculative_draft=None)
    flat = graph * TOKENS
    rows = {
        name: torch.full((graph,), 7, dtype=torch.int64)
        for name in (
            *("req_pool_indices", "seq_lens", "seq_lens_cpu", "num_correct_drafts", "num_accept_tokens"),
            *("extend_seq_lens", "extend_start_loc"),
        )
    }
    tokens = {
        name: torch.zeros(flat, dtype=torch.int64) for name in ("input_ids", "out_cache_loc", "positions")
    }
    buffers = SimpleNamespace(
        **rows,
        **tokens,
        hidden_states=torch.zeros(flat, 2),
        mrope_positions=torch.zeros(3, flat, dtype=torch.int64),
        next_token_logits_buffer=torch.zeros(flat, 4),
        dsa_seed_topk_capture=None,
        global_num_tokens_gpu=torch.zeros(1, dtype=torch.int32),
        global_num_tokens_for_logprob_gpu=torch.zeros(1, dtype=torch.int32),
    )
    logits = import_module("sglang.srt.layers.logits_processor").LogitsProcessorOutput

    def output() -> Any:
        values = torch.arange(flat * 4.0).reshape(flat, 4)
        made = logits(next_token_logits=values, hidden_states=torch.zeros(flat, 2))
        made.topk_p, made.topk_index = torch.ones(flat, 1), torch.zeros(flat, 1)
        return made

    backend = _Backend()
    runner = _off(
        getattr(module, owner),
        buffers=buffers,
        capture_bs=[graph],
        captured_req_width=TOKENS,
        num_tokens_per_bs=TOKENS,
        forward_mode=ForwardMode.DRAFT_EXTEND_V2,
        topk=1,
        step=0,
        seq_len_fill_value=1,
        extend_seq_lens_cpu=[TOKENS] * graph,
        draft_extend_attn_backend=backend,
        eagle_worker=SimpleNamespace(draft_extend_attn_backend_list=[backend]),
        deepep_adapter=Mock(),
        device_module=Mock(),
        padded_static_len=-1,
        model_runner=SimpleNamespace(
            server_args=SimpleNamespace(),
            model=SimpleNamespace(forward=lambda *_: output()),
            canary_manager=None,
            device_timer=None,
            spec_algorithm=SpeculativeAlgorithm.EAGLE,
        ),
        _make_graph_key=lambda size: size,
        _pad_to_bucket=lambda *_: graph,
        _replay_graph=lambda *_: output(),
        backend=SimpleNamespace(),
    )
    return runner, backend


def replayed_draft_extend(kind: str, lens: list[int], graph: int) -> dict[str, Any]:
    """Replay the graph of a draft-extend; return what the backend plans from, and the logits."""
    runner, backend = _draft_extend_runner(kind, graph)
    batch = _batch("DRAFT_EXTEND_V2", lens, mirror=True)
    batch.positions = torch.zeros(len(batch.input_ids), dtype=torch.int64)
    batch.extend_start_loc = torch.zeros(len(lens), dtype=torch.int64)
    batch.spec_info.hidden_states = torch.zeros(len(batch.input_ids), 2)
    batch.spec_info.num_correct_drafts = batch.spec_info.num_accept_tokens - 1
    out = runner.execute(batch)
    return {"given": backend.given, "logits": plain(out.next_token_logits)}


def captured_draft_extend(graph: int) -> dict[str, Any]:
    """Capture the graph of a draft-extend; return its logits. What it computes besides, no later code reads."""
    runner, _ = _draft_extend_runner("eagle", graph)
    ran: list[Any] = []
    runner.backend.capture_one = lambda _, run, **__: ran.append(run())
    runner.capture_one_shape(graph, None)
    return {"logits": plain(ran[0].next_token_logits)}


def flashinfer(lens: list[int]) -> dict[str, Any]:
    """Capture and replay the graph of a verify on FlashInfer; return what its indices are planned from."""
    module: Any = import_module("sglang.srt.layers.attention.flashinfer_backend")
    module.BatchPrefillWithPagedKVCacheWrapper = Mock()
    updater = Mock()
    count, size = len(lens), REQUESTS * TOKENS
    backend = _off(
        module.FlashInferAttnBackend,
        device="cpu",
        num_wrappers=1,
        prefill_backend="fa2",
        indices_updater_prefill=updater,
        prefill_cuda_graph_metadata={},
        kv_last_page_len=torch.zeros(size, dtype=torch.int32),
        cuda_graph_custom_mask=torch.zeros(size * ROW, dtype=torch.uint8),
        **{
            name: [torch.zeros(size, dtype=torch.int32)]
            for name in ("kv_indptr", "cuda_graph_kv_indices", "cuda_graph_qo_indptr", "cuda_graph_qk_indptr")
        },
    )
    batch = _batch("TARGET_VERIFY", lens, mirror=True)
    batch.positions = batch.input_ids
    rows, lengths, mode, spec = batch.req_pool_indices, batch.seq_lens, batch.forward_mode, batch.spec_info
    if hasattr(module.FlashInferAttnBackend, "init_forward_metadata_replay_cuda_graph"):
        backend.init_forward_metadata_capture_cuda_graph(
            count, count * TOKENS, rows, lengths, None, mode, spec
        )
        backend.init_forward_metadata_replay_cuda_graph(
            count, rows, lengths, sum(lens), None, mode, spec, batch.seq_lens_cpu
        )
    else:
        for in_capture in (True, False):
            backend.init_forward_metadata_out_graph(batch, in_capture=in_capture)
    calls = [(call.args, call.kwargs) for call in updater.update.call_args_list]
    return {
        "given": [
            [plain(each) for each in (*given, *named.values()) if isinstance(each, (torch.Tensor, int))]
            for given, named in calls
        ]
    }


def replay_view(lens: list[int], graph: int) -> dict[str, Any]:
    """Make the view of a batch that a graph's replay passes to its backend; return the lengths in it."""
    module: Any = import_module("sglang.srt.model_executor.runner.decode_cuda_graph_runner")
    batch = _batch("TARGET_VERIFY", lens, mirror=True)
    names = ("req_pool_indices", "seq_lens", "seq_lens_cpu", "encoder_lens")
    rows = {name: torch.full((graph,), 7, dtype=torch.int64) for name in names}
    flat = torch.zeros(graph * TOKENS, dtype=torch.int64)
    view = _called(
        module.build_replay_fb_view,
        forward_batch=batch,
        buffers=SimpleNamespace(**rows, input_ids=flat, out_cache_loc=flat, positions=flat),
        bs=graph,
        raw_bs=len(lens),
        num_tokens=graph * TOKENS,
        seq_len_fill_value=1,
        capture_forward_mode=batch.forward_mode,
        is_encoder_decoder=False,
    )
    return {
        name: plain(getattr(view, name))
        for name in ("batch_size", "seq_lens", "seq_lens_sum", "seq_lens_cpu")
    }


def hybrid() -> dict[str, Any]:
    """Ask a backend of two sides what it declares for them, and for the buffers of the one that verifies."""
    module = import_module("sglang.srt.layers.attention.hybrid_attn_backend")
    side = SimpleNamespace(
        needs_cpu_seq_lens=True,
        max_context_len=CONTEXT,
        get_verify_buffers_to_fill_after_draft=lambda: [None, None],
    )
    backend = _off(
        module.HybridAttnBackend, prefill_backend=side, decode_backend=side, _select_backend=lambda *_: side
    )
    buffers = backend.get_verify_buffers_to_fill_after_draft()
    return {"reads": backend.needs_cpu_seq_lens, "context": backend.max_context_len, "buffers": buffers}
