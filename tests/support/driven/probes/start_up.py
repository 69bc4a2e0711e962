"""A server's start: the scheduler makes its workers, pools, attention backends and graph runners, in the tree's own order."""

from __future__ import annotations

import dataclasses
import importlib
import os
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt import server_args as server_args_module
from sglang.srt.configs.model_config import AttentionArch, ModelConfig
from sglang.srt.managers import tp_worker
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.model_executor import model_runner as model_runner_module
from sglang.srt.model_executor.model_runner import ModelRunner
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from torch.overrides import TorchFunctionMode

CONTEXT, REQUESTS, SLOTS, LAYERS, HEADS, HEAD_DIM, VOCABULARY = 64, 4, 256, 2, 2, 8, 32

WORKERS = {
    "none": {},
    "eagle": {"speculative_algorithm": "EAGLE"},
    "eagle3": {"speculative_algorithm": "EAGLE3"},
    "standalone": {"speculative_algorithm": "STANDALONE"},
    "multi-layer": {"speculative_algorithm": "EAGLE", "enable_multi_layer_eagle": True},
    "frozen-kv": {"speculative_algorithm": "FROZEN_KV_MTP"},
    "ngram": {"speculative_algorithm": "NGRAM"},
    "dflash": {"speculative_algorithm": "DFLASH"},
}


class _StartedError(Exception):
    """The scheduler has everything that this probe has it make."""


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"sglang.srt.{name}")
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("sglang.srt"):
            return None
        raise


class _OnCpu(TorchFunctionMode):
    """Allocates on the CPU what the tree would allocate on a GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        kwargs.pop("pin_memory", None)
        args = tuple("cpu" if isinstance(each, str) and each.startswith("cuda") else each for each in args)
        return func(*args, **kwargs)


class _Config:
    """What a checkpoint's configuration says: names that it lacks are absent."""

    architectures = ["LlamaForCausalLM"]
    num_hidden_layers = LAYERS
    num_attention_heads = HEADS
    num_key_value_heads = HEADS
    head_dim = HEAD_DIM
    hidden_size = HEADS * HEAD_DIM
    vocab_size = VOCABULARY
    torch_dtype = dtype = torch.bfloat16
    model_type = "llama"

    def get_text_config(self) -> _Config:
        return self


class _ModelConfig:
    """What the tree knows of a model: None or False where nothing is said."""

    context_len = CONTEXT
    num_hidden_layers = num_attention_layers = LAYERS
    num_attention_heads = num_key_value_heads = HEADS
    head_dim = v_head_dim = swa_head_dim = swa_v_head_dim = HEAD_DIM
    hidden_size = spec_hidden_size = HEADS * HEAD_DIM
    vocab_size = VOCABULARY
    dtype = torch.bfloat16
    is_generation = True
    model_path = "stand-in"
    kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim = 16, 8, 8
    scaling = 1.0

    def __init__(self, mla: bool) -> None:
        self.attention_arch = AttentionArch.MLA if mla else AttentionArch.MHA
        self.hf_config = self.hf_text_config = _Config()
        self.full_attention_layer_ids, self.swa_attention_layer_ids = list(range(LAYERS)), []
        if mla:
            vars(self.hf_config).update(
                kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, q_lora_rank=16
            )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def get_num_kv_heads(self, *_: Any, **__: Any) -> int:
        return HEADS

    get_num_attention_heads = get_swa_num_kv_heads = get_num_kv_heads

    def get_total_num_kv_heads(self, *_: Any) -> int:
        return HEADS

    get_total_num_attention_heads = get_max_num_attention_heads = get_total_num_kv_heads


class _Model(torch.nn.Module):
    """A model without weights."""

    hot_token_id = shared_experts_config = None
    backbone_hidden_size = HEADS * HEAD_DIM

    def __init__(self) -> None:
        super().__init__()
        self.model = torch.nn.Module()
        self.model.layers = torch.nn.ModuleList()
        self.lm_head = SimpleNamespace(weight=torch.zeros(VOCABULARY, HEADS * HEAD_DIM))

    def forward(
        self, input_ids: Any, positions: Any, forward_batch: Any, pp_proxy_tensors: Any = None
    ) -> None:
        raise NotImplementedError

    def get_embed_and_head(self) -> Any:
        return self.lm_head.weight, self.lm_head.weight

    def _nothing(self, *_: Any, **__: Any) -> None:
        pass

    set_embed_and_head = set_embed = set_eagle3_layers_to_capture = set_dflash_layers_to_capture = _nothing


class _Group:
    """A group of one rank."""

    world_size = ws = 1
    rank = rank_in_group = local_rank = 0
    is_first_rank = is_last_rank = True
    ranks = [0]
    cpu_group = device_group = None
    device = torch.device("cpu")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name.endswith("comm"):
            return None
        return lambda *_, **__: None


class _Stream:
    """A stream, an event or a graph of a GPU that is not there."""

    device = torch.device("cpu")
    cuda_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def _without_a_gpu() -> None:
    cuda = torch.cuda
    properties = SimpleNamespace(
        multi_processor_count=4,
        total_memory=1 << 33,
        name="stand-in",
        major=9,
        minor=0,
        L2_cache_size=1 << 20,
        is_integrated=False,
    )
    for name, value in {
        "Stream": _Stream,
        "Event": _Stream,
        "CUDAGraph": _Stream,
        "current_stream": lambda *_: _Stream(),
        "stream": lambda *_: nullcontext(),
        "set_stream": lambda *_: None,
        "set_device": lambda *_: None,
        "current_device": lambda: 0,
        "synchronize": lambda *_: None,
        "empty_cache": lambda *_: None,
        "mem_get_info": lambda *_: (1 << 32, 1 << 33),
        "memory_reserved": lambda *_: 0,
        "memory_allocated": lambda *_: 0,
        "get_device_properties": lambda *_: properties,
        "get_device_capability": lambda *_: (9, 0),
        "get_device_name": lambda *_: "stand-in",
        "graph_pool_handle": lambda *_: (0, 0),
        "device_count": lambda: 1,
    }.items():
        setattr(cuda, name, value)


def _alone() -> None:
    """Have every parallel group be one of one rank."""
    for name in ("distributed.parallel_state", "layers.dp_attention"):
        module = _module(name)
        for each, kind in getattr(module, "__annotations__", {}).items():
            if "GroupCoordinator" in str(kind):
                setattr(module, each, _Group())
        for each, value in {
            "_ATTN_TP_RANK": 0,
            "_ATTN_TP_SIZE": 1,
            "_ATTN_DP_RANK": 0,
            "_ATTN_DP_SIZE": 1,
            "_LOCAL_ATTN_DP_SIZE": 1,
            "_LOCAL_ATTN_DP_RANK": 0,
            "_ENABLE_DP_ATTENTION_FLAG": False,
        }.items():
            if hasattr(module, each):
                setattr(module, each, value)


def _replace(owner: Any, **values: Any) -> None:
    """Put stand-ins where the tree has the names."""
    for name, value in values.items():
        if hasattr(owner, name):
            setattr(owner, name, value)


def _pools(runner: Any) -> dict[str, Any]:
    from sglang.srt.mem_cache.allocator import TokenToKVPoolAllocator
    from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, MLATokenToKVPool, ReqToTokenPool

    def made(cls: Any, **values: Any) -> Any:
        import inspect

        wanted = inspect.signature(cls.__init__).parameters
        return cls(**{name: value for name, value in values.items() if name in wanted})

    rows = runner.req_to_token_pool or made(
        ReqToTokenPool, size=REQUESTS, max_context_len=CONTEXT + 16, device="cpu", enable_memory_saver=False
    )
    common = dict(
        size=SLOTS,
        page_size=runner.page_size,
        dtype=torch.bfloat16,
        layer_num=LAYERS,
        device="cpu",
        enable_memory_saver=False,
        head_num=HEADS,
        head_dim=HEAD_DIM,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        start_layer=0,
        end_layer=LAYERS - 1,
    )
    pool = made(MLATokenToKVPool if runner.use_mla_backend else MHATokenToKVPool, **common)
    allocator = runner.token_to_kv_pool_allocator or made(
        TokenToKVPoolAllocator, size=SLOTS, dtype=torch.bfloat16, device="cpu", kvcache=pool, need_sort=False
    )
    return {
        "max_total_num_tokens": SLOTS,
        "max_running_requests": REQUESTS,
        "req_to_token_pool": rows,
        "token_to_kv_pool": pool,
        "token_to_kv_pool_allocator": allocator,
        "memory_pool_config": SimpleNamespace(
            max_total_num_tokens=SLOTS,
            max_running_requests=REQUESTS,
            full_max_total_num_tokens=SLOTS,
            swa_max_total_num_tokens=SLOTS,
            mem_fraction_static=0.5,
        ),
    }


def _light_runners() -> None:
    """Have runners load no weights and size no memory; everything else is the tree's."""

    def load_model(self: Any) -> None:
        self.model = _Model()
        self.sliding_window_size = None
        self.prefill_aware_swa = False
        self.dtype = torch.bfloat16
        self.weight_load_mem_usage = 0
        self.loader = SimpleNamespace(preloaded_weights_bytes=0)
        self.load_config = None
        self.remote_instance_weight_info = self.startup_weight_load = None

    def init_memory_pool(self: Any, *_: Any) -> None:
        made = _pools(self)
        vars(self).update(made, max_token_pool_size=SLOTS)

    def init_kv_cache_configurator(self: Any, *_: Any, **__: Any) -> None:
        result = SimpleNamespace(
            **_pools(self),
            full_max_total_num_tokens=SLOTS,
            swa_max_total_num_tokens=SLOTS,
            unified_memory_pool=None,
        )
        self.kv_cache_configurator = SimpleNamespace(
            configure=lambda **_: result, logical_token_capacity=lambda *_, **__: SLOTS
        )

    def configure_kv_cache_dtype(self: Any) -> None:
        self.kv_cache_dtype = torch.bfloat16
        self.kv_cache_dtype_str = "auto"

    def init_torch_distributed(self: Any) -> float:
        self.tp_group = self.pp_group = self.attention_tp_group = self.attn_cp_group = (
            self.attention_cp_group
        ) = _Group()
        self.local_omp_cpuid = None
        self.pre_model_load_memory = 1.0
        return 1.0

    def nothing(*_: Any, **__: Any) -> None:
        return None

    _replace(
        ModelRunner,
        load_model=load_model,
        init_memory_pool=init_memory_pool,
        init_kv_cache_configurator=init_kv_cache_configurator,
        configure_kv_cache_dtype=configure_kv_cache_dtype,
        init_cublas=nothing,
        kernel_warmup=nothing,
        init_shared_mooncake_transfer_engine=nothing,
        model_specific_adjustment=nothing,
        check_quantized_moe_compatibility=nothing,
        _prepare_moe_topk=nothing,
    )
    bootstrap = getattr(model_runner_module, "bootstrap", None)
    if hasattr(bootstrap, "measure_pre_model_load_memory"):
        bootstrap.measure_pre_model_load_memory = lambda **_: 1.0
    else:
        ModelRunner.init_torch_distributed = init_torch_distributed
    _replace(
        model_runner_module,
        set_global_expert_location_metadata=nothing,
        compute_initial_expert_location_metadata=nothing,
        prepare_moe_topk=nothing,
        get_available_gpu_memory=lambda *_, **__: 1.0,
        monkey_patch_vllm_parallel_state=nothing,
    )
    utils = _module("utils.common") or _module("utils")
    _replace(tp_worker, broadcast_pyobj=lambda given, *_, **__: given, set_random_seed=nothing)
    ModelConfig.from_server_args = staticmethod(lambda *_, **__: _ModelConfig(_MLA))
    _replace(utils, get_available_gpu_memory=lambda *_, **__: 1.0)

    for name in ("layers.attention.flashinfer_backend", "layers.attention.flashinfer_mla_backend"):
        for wrapper in (
            "BatchDecodeWithPagedKVCacheWrapper",
            "BatchMLAPagedAttentionWrapper",
            "BatchPrefillWithPagedKVCacheWrapper",
            "BatchPrefillWithRaggedKVCacheWrapper",
        ):
            setattr(_module(name), wrapper, _Stream)
    _replace(_module("layers.attention.attention_registry"), get_device_capability=lambda *_: (9, 0))
    for name in ("layers.attention.trtllm_mla_backend", "layers.attention.trtllm_mha_backend"):
        _replace(_module(name), make_persistent_multi_ctas_kv_counter_buffer=nothing)
    _replace(_module("speculative.ngram_worker"), NgramCorpus=_Stream)
    _replace(_module("model_loader.utils"), get_model_architecture=lambda _: (_Model, "stand-in"))

    def stop(self: Any) -> None:
        raise _StartedError

    tp_worker.TpModelWorker.get_worker_info = stop


_MLA = False
_SIZES = dict.fromkeys(
    [
        "tp_size",
        "pp_size",
        "dp_size",
        "moe_ep_size",
        "moe_tp_size",
        "moe_dp_size",
        "attn_tp_size",
        "attn_dp_size",
        "attn_cp_size",
        "dcp_size",
        "attn_dcp_size",
    ],
    1,
)


def _graphs() -> Any:
    module = _module("model_executor.cuda_graph_config")
    if module is None:
        return None
    made = module.default_cuda_graph_config()
    made.decode.backend, made.decode.bs, made.decode.max_bs = "full", [1, 2], 2
    made.prefill.backend = "disabled"
    return made


def _arguments(kind: str, prefill: str, decode: str) -> Any:
    cls = server_args_module.ServerArgs
    cls.__post_init__ = lambda self: None
    _replace(cls, resolve_once=lambda self: None)
    values = {
        "model_path": "stand-in",
        "device": "cuda",
        "page_size": 1,
        "attention_backend": decode if prefill == decode else None,
        "prefill_attention_backend": prefill,
        "decode_attention_backend": decode,
        "cuda_graph_bs": [1, 2],
        "cuda_graph_bs_decode": [1, 2],
        "cuda_graph_max_bs": 2,
        "cuda_graph_max_bs_decode": 2,
        "torch_compile_max_bs": 1,
        "chunked_prefill_size": 32,
        "max_prefill_tokens": 32,
        "max_running_requests": REQUESTS,
        "random_seed": 1,
        "skip_tokenizer_init": True,
        "mem_fraction_static": 0.5,
        "disable_piecewise_cuda_graph": True,
        "disable_prefill_cuda_graph": True,
        "sampling_backend": "pytorch",
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
        "speculative_draft_model_path": "stand-in",
        "disable_overlap_schedule": kind in ("ngram", "dflash", "frozen-kv"),
        "load_format": "dummy",
        "grammar_backend": "none",
        "model_impl": "auto",
        "cuda_graph_config": _graphs(),
        **WORKERS[kind],
    }
    names = (
        {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set(dir(cls))
    )
    return cls(**{name: value for name, value in values.items() if name in names})


def start(kind: str, backends: str, *, plan_stream: bool) -> list[str]:
    """Start a server; return the kinds of what was made."""
    prefill, _, decode = backends.removesuffix(" mla").partition("/")
    decode = decode or prefill
    global _MLA
    _MLA = "mla" in backends
    os.environ["SGLANG_ENABLE_OVERLAP_PLAN_STREAM"] = "1" if plan_stream else "0"
    _without_a_gpu()
    _alone()
    _light_runners()
    arguments = _arguments(kind, prefill, decode)
    context = _module("runtime_context")
    if context is not None and hasattr(context, "publish"):
        ranks = (
            {"ranks": context.SpawnRanks(world_rank=0, gpu_id=0)} if hasattr(context, "SpawnRanks") else {}
        )
        context.publish(arguments, role="scheduler", **ranks)
        if hasattr(context.get_parallel(), "override_permanently"):
            fields = getattr(context, "_parallel_fields", tuple)()
            groups = [name for name in fields if name.endswith("_group")]
            context.get_parallel().override_permanently(**{name: _Group() for name in groups})
    elif hasattr(server_args_module, "set_global_server_args_for_scheduler"):
        server_args_module.set_global_server_args_for_scheduler(arguments)
    ranks = dict.fromkeys(
        [
            "gpu_id",
            "tp_rank",
            "moe_ep_rank",
            "pp_rank",
            "attn_cp_rank",
            "moe_dp_rank",
            "dp_rank",
            "attn_tp_rank",
            "attn_dp_rank",
        ],
        0,
    )
    scheduler: Any = object.__new__(Scheduler)
    vars(scheduler).update(
        ranks,
        ps=dataclasses.make_dataclass("Ranks", [*ranks, *_SIZES])(**ranks, **_SIZES),
        server_args=arguments,
        nccl_port=0,
        spec_algorithm=SpeculativeAlgorithm.from_string(arguments.speculative_algorithm),
        send_to_tokenizer=SimpleNamespace(send_output=None),
        ipc_channels=SimpleNamespace(send_to_tokenizer=SimpleNamespace(send_output=None)),
        model_config=_ModelConfig(_MLA),
        enable_overlap=True,
        enable_unified_memory=False,
    )
    _uncaptured()
    with _OnCpu():
        with suppress(_StartedError):
            scheduler.init_model_worker()
    return sorted(_kinds(scheduler))


def _uncaptured() -> None:
    """Have no graph runner capture: all that it makes before is made."""
    import sys

    for name, module in list(sys.modules.items()):
        if name.startswith("sglang.srt"):
            for cls in list(vars(module).values()):
                if isinstance(cls, type) and cls.__name__.endswith("GraphRunner") and "capture" in vars(cls):
                    cls.capture = lambda self, *_, **__: None


def _kinds(scheduler: Any) -> set[str]:
    found, seen, todo = set(), set(), [scheduler]
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, (list, tuple)):
            todo += each
        elif isinstance(each, dict):
            todo += each.values()
        elif type(each).__module__.startswith("sglang.srt") and hasattr(each, "__dict__"):
            if type(each).__name__.endswith(("Worker", "WorkerV2", "Backend", "Runner")):
                found.add(type(each).__name__)
            todo += vars(each).values()
    return found
